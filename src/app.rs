//! The application: builds every part in order, and the router. The only room where all parts meet.
