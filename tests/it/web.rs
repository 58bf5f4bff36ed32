//! The pages and the HTTP layers, from outside.

mod layers;
