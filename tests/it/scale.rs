//! What things cost against what they should depend on, at four points ten apart. `scripts/scale` runs this and keeps the table in
//! `docs/scale.md`.
//!
//! To add a curve: a file with the name of the curve, and in it a function that measures at four points and prints each
//! [`curve::Curve`], for one database or for both (`on_sqlite`, `on_both_databases`).

#![expect(clippy::print_stdout, reason = "the table of the curves is what is asked for")]

/// The test that draws these curves on SQLite.
macro_rules! on_sqlite {
    ($draw:path) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "measures: scripts/scale"]
        async fn sqlite() {
            $draw(super::installation::Engine::sqlite()).await;
        }
    };
}

/// The tests that draw these curves on SQLite and on PostgreSQL.
macro_rules! on_both_databases {
    ($draw:path) => {
        on_sqlite!($draw);

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "measures: scripts/scale"]
        async fn postgresql() {
            $draw(super::installation::Engine::postgresql()).await;
        }
    };
}

mod changes;
mod curve;
mod expiry;
mod hour;
mod installation;
mod mcp_server;
mod message;
mod rows;
mod servers;
mod sessions;
mod tools;
mod users;
