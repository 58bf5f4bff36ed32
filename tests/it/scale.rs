//! What things cost against what they should depend on, at four points ten apart. `scripts/scale` runs this and keeps the table in
//! `docs/scale.md`.
//!
//! To add a curve: a file with the name of the curve, and in it a test for each engine, or whatever else differs, that measures
//! at [`curve::Curve::POINTS`] and prints a [`curve::Curve`].

#![expect(clippy::print_stdout, reason = "the table of the curves is what is asked for")]

mod curve;
mod expiry;
mod installation;
mod rows;
