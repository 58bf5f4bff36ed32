//! Properties of each step.
