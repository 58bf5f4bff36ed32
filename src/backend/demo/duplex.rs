//! Tools of the demonstration backend that interact with the client during the call: elicitation, sampling, roots and
//! logging.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::results::{REVISION, complete, read_only, said, text_result};
use crate::mcp::{ClientInfo, ErrorObject, Event, Level, Method, Notification, Outcome, Payload, Reply, ServerRequest};

/// Delay after each log message.
const PAUSE: Duration = Duration::from_millis(200);

/// The tools of this file, for `tools/list`.
pub(super) fn tools() -> Value {
    json!([
        {
            "name": "survey", "title": "Ask a few questions",
            "description": "Asks the person at the client a few questions in a form (elicitation), and returns the answers.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": read_only("Ask a few questions"),
        },
        {
            "name": "haiku", "title": "Write a haiku",
            "description": "Has the client's own model write a haiku (sampling).",
            "inputSchema": {
                "type": "object",
                "properties": { "about": { "type": "string", "description": "What it is about" } },
            },
            "annotations": read_only("Write a haiku"),
        },
        {
            "name": "list_roots", "title": "List the roots",
            "description": "Lists the folders that the client works in (roots).",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": read_only("List the roots"),
        },
        {
            "name": "log", "title": "Write log messages",
            "description": "Writes a log message of each level, as far as the client's level lets them through.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": read_only("Write log messages"),
        },
        {
            "name": "count_up", "title": "Count up",
            "description": "Increments the counter at demo://counter and notifies its subscribers.",
            "inputSchema": { "type": "object", "properties": {} },
            "annotations": { "title": "Count up", "readOnlyHint": false, "destructiveHint": false, "openWorldHint": false },
        },
    ])
}

/// Asks for answers to four questions, one of them required (2025-06-18, elicitation).
pub(super) fn survey(client: &ClientInfo) -> Reply {
    let schema = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": { "type": "string", "title": "Your name", "minLength": 1, "maxLength": 50 },
            "boats": { "type": "integer", "title": "How many boats do you have?", "minimum": 0, "maximum": 100 },
            "lock": { "type": "string", "title": "Which lock is the finest?", "enum": ["Neptune", "Foxton", "Falkirk"] },
            "again": { "type": "boolean", "title": "May we ask again?", "default": false },
        },
    });
    let params = json!({ "message": "A few questions from the lock keeper", "requestedSchema": schema });
    ask(client, "elicitation", Method::Elicit, &params, |answer| match answer["action"].as_str() {
        Some("accept") => {
            let given = &answer["content"];
            let name = given["name"].as_str().unwrap_or("Somebody");
            format!("{name} answered: {given}")
        }
        Some("decline") => "The answer was declined.".to_owned(),
        _ => "The questions were closed without an answer.".to_owned(),
    })
}

/// Asks the client's model to write a haiku (all legacy versions, sampling).
pub(super) fn haiku(client: &ClientInfo, about: Option<String>) -> Reply {
    let about = about.unwrap_or_else(|| "a canal lock at dawn".to_owned());
    let content = json!({ "type": "text", "text": format!("Write a haiku about {about}. Nothing but the haiku.") });
    let params = json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": 100 });
    ask(client, "sampling", Method::CreateMessage, &params, |answer| {
        let text = answer["content"]["text"].as_str().unwrap_or("(the answer was no text)");
        format!("{text}\n\n(written by {})", answer["model"].as_str().unwrap_or("an unknown model"))
    })
}

/// Lists the client's roots (all legacy versions, roots).
pub(super) fn roots(client: &ClientInfo) -> Reply {
    ask(client, "roots", Method::RootsList, &json!({}), |answer| {
        let roots = answer["roots"].as_array().map_or(&[][..], Vec::as_slice);
        let line = |root: &Value| {
            let uri = root["uri"].as_str()?;
            Some(root["name"].as_str().map_or_else(|| format!("- {uri}"), |name| format!("- {uri} {name}")))
        };
        let lines: Vec<String> = roots.iter().filter_map(line).collect();
        if lines.is_empty() { "The client has no roots.".to_owned() } else { lines.join("\n") }
    })
}

/// Sends one log message of each level that the client wants.
pub(super) fn log(lowest: Option<Level>) -> Reply {
    Reply::new(async_stream::stream! {
        let mut written = 0;
        for level in Level::ALL.into_iter().filter(|level| lowest.is_none_or(|lowest| *level >= lowest)) {
            let text = format!("This is a message of the level `{}`", level.as_str());
            let params = json!({ "level": level.as_str(), "logger": "demo", "data": text });
            let params = Payload::of(REVISION, &params);
            yield Event::Notified(Notification { method: Method::LoggingMessage, params });
            written += 1;
            sleep(PAUSE).await;
        }
        let text = format!("{written} of {} messages were written.", Level::ALL.len());
        yield Event::Done(Outcome::Complete(said(&text_result(&text))));
    })
}

/// Sends a request to the client and makes a result of its answer. Without support or on failure, the result says so: a
/// model can act on that.
fn ask(
    client: &ClientInfo,
    capability: &'static str,
    method: Method,
    params: &Value,
    told: impl FnOnce(&Value) -> String + Send + 'static,
) -> Reply {
    if !client.capabilities.has(capability) {
        return complete(&failed(&format!("This client did not declare `{capability}`, so it cannot be asked.")));
    }
    let (question, answered) = ServerRequest::new(method, said(params));
    Reply::new(async_stream::stream! {
        yield Event::Asked(question);
        let result = match answered.wait().await {
            Some(Ok(answer)) => text_result(&told(&answer.view::<Value>().unwrap_or_default())),
            Some(Err(error)) => failed(&refusal(&error)),
            None => failed("Nobody was there to be asked."),
        };
        yield Event::Done(Outcome::Complete(said(&result)));
    })
}

fn refusal(error: &ErrorObject) -> String {
    format!("The client answered with an error: {error}")
}

fn failed(text: &str) -> Value {
    let mut result = text_result(text);
    result["isError"] = true.into();
    result
}
