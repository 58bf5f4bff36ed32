//! Payloads from one revision to another: the vectors, the official schemas, properties of each step, hostile texts.

mod hostile;
mod properties;
mod samples;
pub(crate) mod schemas;
mod vectors;

use lockkeeper::mcp::{
    Capabilities, ClientInfo, ErrorObject, Facts, Method, Outcome, Payload, Revision,
    translate::{Kind, Profile},
};
use serde_json::{Value, json};

fn payload(revision: Revision, json: &Value) -> Payload {
    Payload::of(revision, json)
}

fn value(payload: &Payload) -> Value {
    if payload.is_absent() { Value::Null } else { serde_json::from_slice(payload.json()).unwrap() }
}

fn carried(kind: Kind, method: &Method, from: Revision, to: Revision, json: &Value) -> Value {
    value(&payload(from, json).into_revision(to, &Facts::new(kind, method)).unwrap())
}

#[test]
fn equal_revisions_and_untouched_payloads_keep_every_byte() {
    let odd = r#"{ "content" : [ {"type":"text" ,"text":"\u0061\ud800"} ], "x":1e400, "x" : 12345678901234567890123 }"#;
    let given = |revision| Payload::new(revision, odd.into());
    let facts = Facts::new(Kind::Result, &Method::ToolsCall);
    for from in Revision::ALL {
        for to in Revision::ALL.into_iter().filter(|to| *to <= Revision::NEWEST_LEGACY || *to == from) {
            assert_eq!(given(from).into_revision(to, &facts).unwrap().json(), odd, "{from} to {to}");
        }
    }
}

#[test]
fn an_edit_keeps_every_other_byte() {
    let odd = r#"{ "tools" : [ {"name":"t" ,"inputSchema":{"properties":{"a" : true},"x":1e400}, "execution":{}} ], "z" : 0.00 }"#;
    let facts = Facts::new(Kind::Result, &Method::ToolsList);
    let lowered = Payload::new(Revision::V2026_07_28, odd.into());
    let lowered = lowered.into_revision(Revision::V2025_03_26, &facts).unwrap();
    assert_eq!(lowered.json(), &odd.replace("true", "{}").replace(r#", "execution":{}"#, ""));
}

#[test]
fn the_strict_profile_removes_what_the_target_does_not_define() {
    let resource = json!({ "resources": [{ "uri": "a:b", "name": "n", "title": "T", "icons": [], "x": 1,
        "annotations": { "priority": 1, "lastModified": "2025-01-01" }, "_meta": {} }], "_meta": { "v/x": 1 } });
    let strict = Facts { profile: Profile::Strict, ..Facts::new(Kind::Result, &Method::ResourcesList) };
    let lowered = payload(Revision::V2025_11_25, &resource).into_revision(Revision::V2024_11_05, &strict).unwrap();
    let expected = json!({ "resources": [{ "uri": "a:b", "name": "n", "annotations": { "priority": 1 } }], "_meta": { "v/x": 1 } });
    assert_eq!(value(&lowered), expected);
}

#[test]
fn answers_of_the_newest_version_reach_no_older_server() {
    let request = json!({ "x": 1, "inputResponses": { "k": {} }, "requestState": "made up" });
    let of = |method| carried(Kind::Request, &method, Revision::V2026_07_28, Revision::V2025_11_25, &request);
    for method in [Method::ToolsCall, Method::PromptsGet, Method::ResourcesRead, Method::ToolsList, Method::Complete] {
        assert_eq!(of(method), json!({ "x": 1 }));
    }
    assert_eq!(of(Method::parse("acme/own")), request);
}

#[test]
fn several_choices_become_yes_or_no_fields_and_come_back() {
    let question = json!({ "mode": "form", "message": "m", "requestedSchema": { "type": "object", "required": ["c", "n"],
        "properties": {
            "n": { "type": "string", "oneOf": [{ "const": "a", "title": "A" }, { "const": "b", "title": "B" }] },
            "c": { "type": "array", "title": "Colours", "minItems": 1, "default": ["g"],
                   "items": { "anyOf": [{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }] } },
        } } });
    let lowered =
        carried(Kind::ServerRequest, &Method::Elicit, Revision::V2026_07_28, Revision::V2025_06_18, &question);
    let expected = json!({ "message": "m", "requestedSchema": { "type": "object", "required": ["n"], "properties": {
        "n": { "type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"] },
        "c__0": { "type": "boolean", "title": "Colours: Red", "default": false },
        "c__1": { "type": "boolean", "title": "Colours: Green", "default": true },
    } } });
    assert_eq!(lowered, expected);

    let question = payload(Revision::V2026_07_28, &question);
    let facts = Facts { question: Some(&question), ..Facts::new(Kind::Answer, &Method::Elicit) };
    let answer = |content: Value| {
        let answer = payload(Revision::V2025_06_18, &json!({ "action": "accept", "content": content }));
        answer.into_revision(Revision::V2026_07_28, &facts)
    };
    let raised = answer(json!({ "n": "a", "c__0": true, "c__1": true })).unwrap();
    assert_eq!(value(&raised)["content"], json!({ "n": "a", "c": ["r", "g"] }));
    let refused = answer(json!({ "n": "a", "c__0": false })).unwrap_err();
    assert_eq!(refused.to_string(), "the answer to c must have at least 1 of the choices");
}

#[test]
fn an_answer_is_raised_for_a_server_of_a_version_before_elicitation_too() {
    let form = json!({ "type": "object", "properties": {
        "m": { "type": "array", "items": { "type": "string", "enum": ["p", "q"] } } } });
    for server in [Revision::V2024_11_05, Revision::V2025_03_26] {
        let question = payload(server, &json!({ "message": "?", "requestedSchema": form }));
        let facts = Facts { question: Some(&question), ..Facts::new(Kind::Answer, &Method::Elicit) };
        let content = json!({ "m__0": true, "m__1": true });
        let lowered = payload(Revision::V2025_06_18, &json!({ "action": "accept", "content": content }));
        let raised = lowered.into_revision(server, &facts).unwrap();
        assert_eq!(value(&raised)["content"], json!({ "m": ["p", "q"] }), "{server}");
        // this client got the form unchanged
        let content = json!({ "m": ["p"], "m__0": true });
        let whole = payload(Revision::V2025_11_25, &json!({ "action": "accept", "content": content }));
        assert_eq!(value(&whole.into_revision(server, &facts).unwrap())["content"], content);
    }
}

#[test]
fn a_custom_server_request_has_no_form_in_the_newest_version_and_passes_between_others() {
    let (method, params) = (Method::parse("x-vendor/ask"), json!({ "mode": "url", "task": {} }));
    for from in Revision::LEGACY {
        for to in Revision::LEGACY.into_iter().filter(|to| *to != from) {
            let passed = payload(from, &params).into_revision(to, &Facts::new(Kind::ServerRequest, &method)).unwrap();
            assert_eq!(value(&passed)["mode"], "url", "{from} to {to}");
        }
        let facts = Facts::new(Kind::ServerRequest, &method);
        let refused = payload(from, &params).into_revision(Revision::V2026_07_28, &facts).unwrap_err();
        assert_eq!(refused.error().code(), ErrorObject::METHOD_NOT_FOUND);
    }
}

#[test]
fn an_unknown_resource_is_named_if_its_server_did_not() {
    let method = Method::ResourcesRead;
    let facts = Facts { uri: Some("file:///x"), ..Facts::new(Kind::Result, &method) };
    let error = ErrorObject::new(-32002, "Resource not found").written_in(Revision::V2024_11_05);
    let Outcome::Failed(error) = error.into_revision(Revision::V2026_07_28, &facts) else { panic!("an error") };
    let error: Value = serde_json::from_slice(error.json()).unwrap();
    assert_eq!(error, json!({ "code": -32602, "message": "Resource not found", "data": { "uri": "file:///x" } }));
}

#[test]
fn an_output_schema_of_any_root_and_its_values_are_wrapped_together() {
    let tools = json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" },
        "outputSchema": { "type": "array", "items": { "$ref": "#/$defs/x" }, "$defs": { "x": { "type": "string" } } } }] });
    let lowered = carried(Kind::Result, &Method::ToolsList, Revision::V2026_07_28, Revision::V2025_11_25, &tools);
    let shown = payload(Revision::V2026_07_28, &tools);
    assert_eq!(lockkeeper::mcp::translate::wrapped_tools(&shown), ["t"]);
    let schema = &lowered["tools"][0]["outputSchema"];
    assert_eq!(schema["required"], json!(["result"]));
    assert_eq!(schema["properties"]["result"]["items"]["$ref"], "#/properties/result/$defs/x");
    let called = json!({ "content": [], "structuredContent": ["a"] });
    let called = carried(Kind::Result, &Method::ToolsCall, Revision::V2026_07_28, Revision::V2025_11_25, &called);
    assert!(jsonschema::is_valid(schema, &called["structuredContent"]));
    assert!(!jsonschema::is_valid(schema, &json!({ "result": [1] })));
}

#[test]
fn a_result_of_a_wrapped_schema_is_wrapped_once_whatever_is_edited_on_the_way() {
    let facts = Facts::new(Kind::Result, &Method::ToolsCall);
    let result = payload(Revision::V2026_07_28, &json!({ "content": [], "structuredContent": { "v": 1 } }));
    let marked = result.of_wrapped_output().with("x", "1").without("y");
    let same = marked.clone().into_revision(Revision::V2026_07_28, &facts).unwrap();
    assert_eq!(value(&same)["structuredContent"], json!({ "v": 1 }));
    let lowered = marked.into_revision(Revision::V2025_11_25, &facts).unwrap();
    assert_eq!(value(&lowered)["structuredContent"], json!({ "result": { "v": 1 } }));
    let again = lowered.into_revision(Revision::V2025_06_18, &facts).unwrap();
    assert_eq!(value(&again)["structuredContent"], json!({ "result": { "v": 1 } }));
}

#[test]
fn an_old_client_gets_the_text_of_structured_content_once() {
    let call = |content: Value, structured: Value| {
        let result = json!({ "content": content, "structuredContent": structured });
        carried(Kind::Result, &Method::ToolsCall, Revision::V2026_07_28, Revision::V2024_11_05, &result)
    };
    let same = call(json!([{ "type": "text", "text": " {\"b\": 2, \"a\":1.0}" }]), json!({ "a": 1, "b": 2 }));
    assert_eq!(same["content"].as_array().unwrap().len(), 1);
    let list = call(json!([{ "type": "text", "text": "two" }]), json!([1, 2]));
    assert_eq!(list["content"][1]["text"], "[1,2]");
    assert_eq!(list["structuredContent"], json!({ "result": [1, 2] }));
}

#[test]
fn an_untranslatable_message_gets_the_error_of_its_side() {
    let ask = |method: &Method, to, json: Value| {
        payload(Revision::V2025_11_25, &json).into_revision(to, &Facts::new(Kind::ServerRequest, method)).unwrap_err()
    };
    let form = ask(&Method::Elicit, Revision::V2025_03_26, json!({ "message": "m" }));
    let page = ask(&Method::Elicit, Revision::V2025_06_18, json!({ "mode": "url", "message": "m" }));
    let tools = ask(&Method::CreateMessage, Revision::V2025_06_18, json!({ "messages": [], "tools": [] }));
    let sound =
        json!({ "messages": [{ "role": "user", "content": { "type": "audio", "data": "", "mimeType": "a/b" } }] });
    let sound = ask(&Method::CreateMessage, Revision::V2024_11_05, sound);
    let refusals = [form, page, tools, sound];
    let features: Vec<&str> = refusals.iter().map(|refusal| refusal.feature.name()).collect();
    assert_eq!(features, ["elicitation", "elicitation.url", "sampling.tools", "audio in sampling"]);
    assert!(refusals.iter().all(|refusal| refusal.error().code() == -32602));

    let refused = refusals[1].outcome(&Method::PromptsGet, "k");
    let Outcome::Failed(error) = refused else { panic!("an error") };
    let error: Value = serde_json::from_slice(error.json()).unwrap();
    assert_eq!(error["data"], json!({ "requiredCapabilities": { "elicitation": { "url": {} } } }));
    let Outcome::Complete(result) = refusals[0].outcome(&Method::ToolsCall, "k") else { panic!("a result") };
    assert_eq!(value(&result)["isError"], true);
}

#[test]
fn audio_and_links_are_converted_for_a_client_that_knows_neither() {
    let content = json!([
        { "type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": { "priority": 1 }, "_meta": { "v/x": 1 } },
        { "type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "_meta": { "v/x": 1 } },
    ]);
    let result = json!({ "content": content });
    let lowered = carried(Kind::Result, &Method::ToolsCall, Revision::V2025_11_25, Revision::V2024_11_05, &result);
    // the beginning of the SHA-256 of the four bytes `RIFF`
    let expected = json!([
        { "type": "resource", "annotations": { "priority": 1 }, "_meta": { "v/x": 1 }, "resource":
            { "uri": "urn:gw:inline:sha256:a40ff3d5900fb769", "mimeType": "audio/wav", "blob": "UklGRg==" } },
        { "type": "text", "text": "[resource_link] {\"name\":\"n\",\"title\":\"T\",\"uri\":\"a:b\"}", "_meta": { "v/x": 1 } },
    ]);
    assert_eq!(lowered["content"], expected);
    let message = json!({ "messages": [{ "role": "user", "content": content[0] }] });
    let lowered = carried(Kind::Result, &Method::PromptsGet, Revision::V2025_03_26, Revision::V2024_11_05, &message);
    assert_eq!(lowered["messages"][0]["content"]["type"], "resource");
}

#[test]
fn sampling_with_several_blocks_reaches_an_older_client_and_its_answer_comes_back() {
    let image = json!({ "type": "image", "data": "AA==", "mimeType": "image/png" });
    let question = json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "a" }, image] }], "maxTokens": 9 });
    let lowered =
        carried(Kind::ServerRequest, &Method::CreateMessage, Revision::V2026_07_28, Revision::V2025_06_18, &question);
    let expected =
        json!([{ "role": "user", "content": { "type": "text", "text": "a" } }, { "role": "user", "content": image }]);
    assert_eq!(lowered["messages"], expected);

    let answer = |blocks: Value| {
        let answer = payload(Revision::V2026_07_28, &json!({ "role": "assistant", "model": "m", "content": blocks }));
        answer.into_revision(Revision::V2025_06_18, &Facts::new(Kind::Answer, &Method::CreateMessage))
    };
    let joined = answer(json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }])).unwrap();
    assert_eq!(value(&joined)["content"], json!({ "type": "text", "text": "ab" }));
    let mixed = answer(json!([{ "type": "text", "text": "a" }, image])).unwrap_err();
    assert_eq!(mixed.error().code(), -32603);
}

#[test]
fn context_is_requested_only_if_the_client_declared_it() {
    let question = json!({ "messages": [], "maxTokens": 9, "includeContext": "allServers" });
    let asked = |to, capabilities: &'static str| {
        let client = ClientInfo { capabilities: Capabilities::new(capabilities.into()), ..ClientInfo::gateway() };
        let facts = Facts { client: Some(&client), ..Facts::new(Kind::ServerRequest, &Method::CreateMessage) };
        let asked = payload(Revision::V2024_11_05, &question).into_revision(to, &facts).unwrap();
        asked.string("includeContext")
    };
    assert_eq!(asked(Revision::V2025_11_25, r#"{"sampling":{}}"#), None);
    assert_eq!(asked(Revision::V2026_07_28, r#"{"sampling":{}}"#), None);
    assert_eq!(asked(Revision::V2025_11_25, r#"{"sampling":{"context":{}}}"#).as_deref(), Some("allServers"));
    assert_eq!(asked(Revision::V2025_06_18, r#"{"sampling":{}}"#).as_deref(), Some("allServers"));
}

#[test]
fn a_url_elicitation_has_an_id_only_in_2025_11_25() {
    let page = json!({ "mode": "url", "url": "https://x/k", "message": "m" });
    let lowered = carried(Kind::ServerRequest, &Method::Elicit, Revision::V2026_07_28, Revision::V2025_11_25, &page);
    assert!(lowered["elicitationId"].is_string());
    assert_eq!(
        carried(Kind::ServerRequest, &Method::Elicit, Revision::V2025_11_25, Revision::V2026_07_28, &lowered),
        page
    );
}

#[test]
fn a_task_changes_its_shape_and_an_older_client_never_sees_one() {
    let created = json!({ "task": { "taskId": "T", "status": "working", "ttl": null, "pollInterval": 5 }, "_meta": { "v/x": 1 } });
    let raised = carried(Kind::Result, &Method::ToolsCall, Revision::V2025_11_25, Revision::V2026_07_28, &created);
    let flat = json!({ "resultType": "task", "taskId": "T", "status": "working", "ttlMs": null, "pollIntervalMs": 5, "_meta": { "v/x": 1 } });
    assert_eq!(raised, flat);
    assert_eq!(
        carried(Kind::Result, &Method::ToolsCall, Revision::V2026_07_28, Revision::V2025_11_25, &raised),
        created
    );
    for given in [payload(Revision::V2026_07_28, &flat), payload(Revision::V2025_11_25, &created)] {
        let refused = given.into_revision(Revision::V2025_06_18, &Facts::new(Kind::Result, &Method::ToolsCall));
        assert_eq!(refused.unwrap_err().feature.name(), "tasks");
    }
}

#[test]
fn a_required_url_elicitation_becomes_a_request_a_missing_capability_or_a_tool_error() {
    let error = || {
        let data = json!({ "elicitations": [{ "mode": "url", "elicitationId": "e", "url": "https://x/c", "message": "Authorize" }] });
        ErrorObject::with_data(-32042, "More information needed", &data)
    };
    let outcome = |to, method: &Method, capabilities: &'static str| {
        let client = ClientInfo { capabilities: Capabilities::new(capabilities.into()), ..ClientInfo::gateway() };
        let facts = Facts { client: Some(&client), ..Facts::new(Kind::Result, method) };
        error().written_in(Revision::V2025_11_25).into_revision(to, &facts)
    };
    let Outcome::InputRequired(asked) =
        outcome(Revision::V2026_07_28, &Method::ToolsCall, r#"{"elicitation":{"url":{}}}"#)
    else {
        panic!("a question")
    };
    let page = json!({ "mode": "url", "url": "https://x/c", "message": "Authorize" });
    assert_eq!(value(&asked)["inputRequests"]["r1"], json!({ "method": "elicitation/create", "params": page }));
    let code = |outcome| match outcome {
        Outcome::Failed(error) => error.code(),
        _ => 0,
    };
    assert_eq!(code(outcome(Revision::V2026_07_28, &Method::ToolsCall, r#"{"elicitation":{}}"#)), -32021);
    assert_eq!(code(outcome(Revision::V2025_06_18, &Method::PromptsGet, "{}")), -32603);
    assert_eq!(code(outcome(Revision::V2025_06_18, &Method::ToolsCall, "{}")), 0);
}

#[test]
fn error_codes_stay_within_the_revisions_that_define_them() {
    let outcome = |from, to, text: &'static str| {
        let error = ErrorObject::read(text.into()).unwrap().written_in(from);
        let facts = Facts { uri: Some("a:b"), ..Facts::new(Kind::Result, &Method::ResourcesRead) };
        let Outcome::Failed(error) = error.into_revision(to, &facts) else { panic!("an error") };
        String::from_utf8(error.json().to_vec()).unwrap()
    };
    let (newest, legacy) = (Revision::V2026_07_28, Revision::V2025_11_25);
    let timeout = r#"{ "code" : -32001, "message":"Request timeout", "data":{"at":1e400}}"#;
    let hidden = r#"{ "code" : -32603, "message":"Request timeout", "data":{"at":1e400,"upstreamCode":-32001}}"#;
    assert_eq!(outcome(legacy, newest, timeout), hidden);
    assert_eq!(outcome(legacy, Revision::V2024_11_05, timeout), timeout);
    let missing = r#"{"code":-32602,"message":"Resource not found","data":{"uri":"a:b"}}"#;
    assert_eq!(outcome(newest, legacy, missing), missing.replace("-32602", "-32002"));
    assert_eq!(outcome(legacy, Revision::V2024_11_05, missing), missing);
    let other = r#"{"code":-32602,"message":"Invalid","data":{"uri":"c:d"}}"#;
    assert_eq!(outcome(newest, legacy, other), other);
    let own = ErrorObject::new(-32021, "declare it");
    assert_eq!(own.clone().into_revision(newest, &Facts::new(Kind::Result, &Method::ToolsCall)), Outcome::Failed(own));
}

#[test]
fn vendor_members_with_names_of_the_protocol_are_untouched() {
    let theirs = json!({ "task": 1, "inputResponses": 2, "requestState": 3, "ttlMs": 4, "structuredContent": 5 });
    let vendor = Method::parse("x-vendor/do");
    for (from, to) in Revision::ALL.into_iter().flat_map(|from| Revision::ALL.map(|to| (from, to))) {
        assert_eq!(carried(Kind::Request, &vendor, from, to, &theirs), theirs, "{from} to {to}");
    }
    let result = carried(Kind::Result, &vendor, Revision::V2026_07_28, Revision::V2024_11_05, &theirs);
    assert_eq!(result, theirs);
}

#[test]
fn capabilities_are_mirrored_without_those_of_the_gateway() {
    let given = r#"{"roots":{"listChanged":true},"tasks":{},"sampling":{ },"extensions":{"io.modelcontextprotocol/tasks":{},"v/x":{}}}"#;
    let capabilities = Capabilities::new(given.into());
    assert_eq!(capabilities.mirrored(), r#"{"roots":{},"sampling":{ },"extensions":{"v/x":{}}}"#);
}
