//! The style sheet, the script and the logo, embedded in the binary. Their URLs contain a digest of the content, so
//! that browsers may cache them forever. Browsers also request the logo at `/favicon.ico`, and cache it for a day.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, header};

use super::problem::Problem;
use crate::support::Digest;

const STYLE: &str = include_str!("../../templates/lockkeeper.css");
const SCRIPT: &str = include_str!("../../templates/pressed.js");
const MARK: &str = include_str!("../../templates/mark.svg");

const FOREVER: &str = "public, max-age=31536000, immutable";
/// For a URL without a digest: another version of the gateway may have another logo.
const FOR_A_DAY: &str = "public, max-age=86400";

static STYLE_PATH: LazyLock<String> = LazyLock::new(|| path("lockkeeper.css", STYLE));
static SCRIPT_PATH: LazyLock<String> = LazyLock::new(|| path("pressed.js", SCRIPT));
static MARK_PATH: LazyLock<String> = LazyLock::new(|| path("mark.svg", MARK));

/// `GET /assets/{file}`.
pub(super) async fn serve(Path(file): Path<String>) -> Result<Response, Problem> {
    match file.as_str() {
        "lockkeeper.css" => Ok(cached(FOREVER, "text/css; charset=utf-8", STYLE)),
        "pressed.js" => Ok(cached(FOREVER, "text/javascript; charset=utf-8", SCRIPT)),
        "mark.svg" => Ok(cached(FOREVER, "image/svg+xml", MARK)),
        _ => Err(Problem::not_found()),
    }
}

/// `GET /favicon.ico`, which browsers request automatically.
pub(super) async fn favicon() -> Response {
    cached(FOR_A_DAY, "image/svg+xml", MARK)
}

/// Path of the style sheet, below the base path.
pub(super) fn style_path() -> &'static str {
    &STYLE_PATH
}

/// Path of the script, below the base path.
pub(super) fn script_path() -> &'static str {
    &SCRIPT_PATH
}

/// Path of the logo, below the base path.
pub(super) fn mark_path() -> &'static str {
    &MARK_PATH
}

fn path(file: &str, content: &str) -> String {
    format!("/assets/{file}?{}", Digest::sha256(content).short_hex(6))
}

fn cached(lifetime: &'static str, kind: &'static str, content: &'static str) -> Response {
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(kind));
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static(lifetime));
    ([kind, cache], content).into_response()
}
