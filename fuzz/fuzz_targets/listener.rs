//! `cargo fuzz run listener`; built without it, the program checks the files that it is given.
#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(init: lockkeeper_fuzz::write_seeds(lockkeeper_fuzz::listener::seeds), |data: &[u8]| {
    lockkeeper_fuzz::listener::run(data);
});

#[cfg(not(fuzzing))]
fn main() {
    lockkeeper_fuzz::check_files(lockkeeper_fuzz::listener::run);
}
