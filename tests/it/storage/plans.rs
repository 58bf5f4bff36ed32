//! The plan of every statement of the storage, on either database: none reads a whole table that grows with users, where an index
//! is meant.

use std::{collections::BTreeSet, fs, path::Path};

use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::filling::{Ages, Filling, new_database};
use crate::support::postgres;

/// The present time in the rows.
const NOW: i64 = 1_767_225_600_000;

/// Program that keeps the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Sqlite,
    PostgreSql,
}

/// Tables whose rows the configuration or the number of gateways bounds.
const SMALL: &[&str] = &[
    "acme_accounts",
    "acme_challenges",
    "certificates",
    "gateway",
    "replicas",
    "signing_keys",
    "backend_eras",
    "backend_introductions",
    "upstream_clients",
    "unused_clients_total",
];

/// The beginnings of statements that read a whole table, and the reason.
const WHOLE: &[(&str, &str)] = &[
    (
        "SELECT api_keys.*, users.disabled FROM api_keys JOIN users ON users.id = api_keys.user_id ORDER BY",
        "a command lists all",
    ),
    ("SELECT id, created, disabled, (SELECT count(*) FROM api_keys", "a command lists all users"),
    ("SELECT COUNT(*) FROM api_keys", "at a start"),
    ("SELECT * FROM clients WHERE revoked IS NULL AND expired IS NULL ORDER BY", "a command lists all"),
    ("SELECT * FROM clients WHERE revoked IS NOT NULL ORDER BY", "a command lists all"),
    (
        "SELECT grants.*, clients.name AS client_name, api_keys.name AS key_name, api_keys.rights AS key_rights FROM grants \
      JOIN clients ON clients.id = grants.client JOIN api_keys ON api_keys.id = grants.api_key WHERE grants.revoked IS NULL \
      AND grants.last_used IS NOT NULL AND grants.expires > $1 ORDER BY",
        "a command lists all",
    ),
    (
        "SELECT user_id, backend, server, issuer, resource, scope, sealed, connected, version FROM upstream_tokens ORDER BY",
        "a command lists all",
    ),
    ("SELECT DISTINCT backend, server FROM upstream_tokens", "at a start and at a reload, by an index"),
    ("SELECT * FROM initial_access_tokens ORDER BY", "a command lists all"),
    ("SELECT * FROM invitations ORDER BY", "a command lists all"),
    (
        "SELECT 1 FROM api_keys JOIN users ON users.id = api_keys.user_id WHERE api_keys.rights LIKE",
        "an invitation of the owner",
    ),
    ("SELECT DISTINCT issuer FROM api_keys", "at a start, by an index"),
    ("SELECT owner, sealed FROM data_keys", "a command seals all anew"),
    ("INSERT INTO device_authorizations", "ten thousand devices wait at most"),
    ("INSERT INTO provider_logouts", "a hundred thousand reports are remembered at most"),
    ("SELECT sequence, at FROM audit_events ORDER BY sequence LIMIT", "the first ones of the key"),
    (
        "SELECT sequence, at, event, user_id, client, request, fields, count FROM audit_events WHERE",
        "a command searches",
    ),
    (
        "SELECT id, user_id, backend, issuer, sealed, attempts FROM upstream_withdrawn ORDER BY id LIMIT",
        "the first ones of the key",
    ),
    ("SELECT id FROM ended_user_secrets ORDER BY id LIMIT", "the first ones of the key"),
    ("DELETE FROM clients WHERE id = ( SELECT clients.id FROM unused_clients CROSS JOIN", "the first one of an index"),
    ("DELETE FROM clients WHERE id IN ( SELECT id FROM clients WHERE expired IS NOT NULL", "a command deletes all"),
];

/// The string literals of a source text, without those of its tests.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut found, mut rest) = (Vec::new(), source);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (sign, after) = (&rest[at..=at], &rest[at + 1..]);
        rest = match sign {
            "/" if after.starts_with('/') => after.split_once('\n').map_or("", |(_, next)| next),
            // a quote as a character
            "'" if after.starts_with("\"'") => &after[2..],
            "\"" => {
                let mut end = 0;
                while !after[end..].starts_with('"') {
                    end += if after[end..].starts_with('\\') {
                        2
                    } else {
                        after[end..].chars().next().unwrap().len_utf8()
                    };
                }
                found.push(after[..end].to_owned());
                &after[end + 1..]
            }
            _ => after,
        };
    }
    found
}

/// The statements of a literal, with each value of what it leaves open.
fn statements(literal: &str, of_owner: &str) -> Vec<String> {
    let text = literal.replace("\\\n", " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if !["SELECT ", "UPDATE ", "DELETE ", "INSERT "].iter().any(|verb| text.starts_with(verb)) {
        return Vec::new();
    }
    // the clock, and what one engine has by itself
    if text == "SELECT {}" || text.starts_with("SELECT pg_") {
        return Vec::new();
    }
    // one row has no plan
    if text.starts_with("INSERT ") && !text.contains("SELECT") {
        return Vec::new();
    }
    let last = (1..40).rev().find(|number| text.contains(&format!("${number}"))).unwrap_or(0);
    let text = text
        .replace("{OF_OWNER}", of_owner)
        .replace("{seen}", "(last_seen + CASE WHEN $4 > {now} THEN $4 - {now} ELSE 0 END)")
        .replace("{now}", "1767225600000")
        .replace("{places}", &format!("${}, ${}", last + 1, last + 2));
    let variants =
        [("{table}", vec!["upstream_tokens", "user_secrets"]), ("{initialized}", vec!["", "initialized = 0 AND "])];
    let mut all = vec![text];
    for (open, values) in variants {
        if all[0].contains(open) {
            all = values.iter().map(|value| all[0].replace(open, value)).collect();
        }
    }
    assert!(!all[0].contains('{'), "a place that this test does not know: {}", all[0]);
    all
}

/// Every statement of the storage.
fn all_statements() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/storage");
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let of_subjects = files.filter(|file| {
        let name = file.file_stem().unwrap().to_str().unwrap();
        // whole tables are what a copy is about; the others hold no statement about rows
        file.is_file() && !["copy", "migrations", "claim"].contains(&name)
    });
    let literals: Vec<String> = of_subjects.flat_map(|file| literals(&fs::read_to_string(file).unwrap())).collect();
    let of_owner = literals.iter().find(|literal| literal.starts_with("user_id = $1 AND client IS NOT DISTINCT FROM"));
    let of_owner = of_owner.expect("`OF_OWNER` in src/storage/mcp_sessions.rs");
    literals.iter().flat_map(|literal| statements(literal, of_owner)).collect()
}

/// The steps of a plan that read a whole table.
async fn whole_reads(connection: &mut AnyConnection, engine: Engine, statement: &str) -> Vec<String> {
    match engine {
        Engine::Sqlite => {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let rows = sqlx::raw_sql(explain).fetch_all(connection).await;
            let rows = rows.unwrap_or_else(|error| panic!("{statement}: {error}"));
            let steps = rows.iter().map(|row| row.get::<String, _>("detail"));
            steps.filter(|step| step.starts_with("SCAN ") && !step.contains("CONSTANT ROW")).collect()
        }
        Engine::PostgreSql => {
            let run = async |connection: &mut AnyConnection, text: String| {
                let rows = sqlx::raw_sql(AssertSqlSafe(text.clone())).fetch_all(connection).await;
                rows.unwrap_or_else(|error| panic!("{statement}: {text}: {error}"))
            };
            // its type follows from no other place
            let text = statement.replace("THEN $2 END", "THEN $2::bytea END");
            run(connection, format!("PREPARE one AS {text}")).await;
            let types = "SELECT unnest(parameter_types)::text AS kind FROM pg_prepared_statements WHERE name = 'one'";
            let types = run(connection, types.to_owned()).await;
            let value = |(at, row): (usize, &sqlx::any::AnyRow)| match row.get::<String, _>("kind").as_str() {
                "bigint" | "integer" | "numeric" if is_limit(statement, at + 1) => "100".to_owned(),
                "bigint" | "numeric" => NOW.to_string(),
                "integer" => "1".to_owned(),
                "bytea" => "decode(md5('77'), 'hex')".to_owned(),
                _ => "'77'".to_owned(),
            };
            let values: Vec<String> = types.iter().enumerate().map(value).collect();
            let values = if values.is_empty() { String::new() } else { format!("({})", values.join(", ")) };
            let plan = run(connection, format!("EXPLAIN EXECUTE one{values}")).await;
            run(connection, "DEALLOCATE one".to_owned()).await;
            let steps: Vec<String> = plan.iter().map(|row| row.get::<String, _>(0)).collect();
            steps.into_iter().filter(|step| step.contains("Seq Scan on ")).collect()
        }
    }
}

/// True if a parameter is a number of rows, or of a row.
fn is_limit(statement: &str, parameter: usize) -> bool {
    ["LIMIT", "OFFSET", "sequence <=", "id <=", "<"].iter().any(|before| {
        let text = format!("{before} ${parameter}");
        // `count < $8`, but not `expires < $1`
        statement.split(&text).collect::<Vec<_>>().windows(2).any(|around| {
            let is_whole = !around[1].starts_with(|next: char| next.is_ascii_digit());
            is_whole && (*before != "<" || around[0].ends_with(") "))
        })
    })
}

/// Compares the plans of all statements with what they may read.
async fn check_plans(engine: Engine, connection: &mut AnyConnection) {
    let all = all_statements();
    assert!(all.len() > 150, "only {} statements were found", all.len());
    let (mut wrong, mut needless) = (Vec::new(), WHOLE.iter().map(|(beginning, _)| *beginning).collect::<Vec<_>>());
    for statement in &all {
        let is_known = WHOLE.iter().any(|(beginning, _)| statement.starts_with(beginning));
        needless.retain(|beginning| !statement.starts_with(beginning));
        let reads = whole_reads(connection, engine, statement).await;
        let is_small = |step: &str| SMALL.iter().any(|table| step.split([' ', '(']).any(|word| word == *table));
        let of_large = reads.into_iter().filter(|step| !is_small(step) && !is_known);
        wrong.extend(of_large.map(|step| format!("{statement}\n    {step}")));
    }
    assert!(wrong.is_empty(), "{} whole tables are read:\n{}", wrong.len(), wrong.join("\n"));
    assert!(needless.is_empty(), "no statement begins so: {needless:?}");
}

#[tokio::test]
async fn every_statement_finds_its_rows_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    // SQLite counts no rows for its plans, unless somebody runs ANALYZE: they are the same for few and for many
    let (_, pool) = new_database(folder.path(), None).await;
    check_plans(Engine::Sqlite, &mut pool.acquire().await.unwrap()).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server: scripts/test-postgres"]
async fn every_statement_finds_its_rows_by_an_index_on_a_server_too() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pool) = new_database(folder.path(), postgres().as_deref()).await;
    Filling { rows: 1..=100_000, now: NOW, ages: Ages::Mostly }.add(&pool).await;
    check_plans(Engine::PostgreSql, &mut pool.acquire().await.unwrap()).await;
}

#[tokio::test]
async fn a_row_that_others_refer_to_is_deleted_without_a_search_of_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (_, pool) = new_database(folder.path(), None).await;
    let mut connection = pool.acquire().await.unwrap();
    let references = "SELECT child.name AS child, reference.\"from\" AS its_column FROM sqlite_schema AS child
                      JOIN pragma_foreign_key_list(child.name) AS reference WHERE child.type = 'table'";
    let references = sqlx::raw_sql(references).fetch_all(&mut *connection).await.unwrap();
    assert!(references.len() > 10);
    for row in references {
        let (table, column) = (row.get::<String, _>("child"), row.get::<String, _>("its_column"));
        let search = format!("SELECT 1 FROM {table} WHERE {column} = 'x'");
        let reads = whole_reads(&mut connection, Engine::Sqlite, &search).await;
        assert!(reads.is_empty(), "{search}: {reads:?}");
    }
}
