//! The command line: one subcommand a file. Knows everything, decides nothing.
