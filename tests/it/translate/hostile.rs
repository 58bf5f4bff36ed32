//! Hostile texts: they are translated or refused, at linear cost.

use lockkeeper::mcp::{
    ErrorObject, Facts, Method, Outcome, Payload, Revision,
    translate::{Kind, MessageCarrier, OutputSchema, Profile, without_invalid_header_params, wrapped_tools},
};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::{TimeVal, TimeValLike as _},
};
use proptest::{
    prelude::{ProptestConfig, any},
    proptest,
};
use serde_json::{Value, json};

use super::samples::METHODS;

/// Maximum CPU time in seconds for a text that is longer than real messages. Ample for a linear cost without
/// optimisation, too little for a quadratic one.
const MAX_CPU_SECONDS: i64 = 20;

/// CPU time of this thread, independent of other processes.
fn cpu_time() -> TimeVal {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    usage.user_time() + usage.system_time()
}

fn everywhere(json: &str) {
    let question = Payload::new(Revision::V2025_11_25, json.to_owned().into());
    for (kind, method) in METHODS {
        for from in Revision::ALL {
            for to in Revision::ALL {
                for (profile, schema) in
                    [(Profile::Faithful, OutputSchema::Wrapped), (Profile::Strict, OutputSchema::AsWritten)]
                {
                    let transport = MessageCarrier::Http;
                    let question = Some(&question);
                    let facts = Facts { profile, schema, transport, question, ..Facts::new(*kind, method) };
                    let carried = Payload::new(from, json.to_owned().into()).into_revision(to, &facts);
                    if let Ok(carried) = carried
                        && serde_json::from_str::<Value>(json).is_ok()
                    {
                        let text = carried.json();
                        assert!(text.is_empty() || serde_json::from_slice::<Value>(text).is_ok(), "{json}");
                    }
                }
            }
        }
    }
    wrapped_tools(&question);
    let _ = without_invalid_header_params(question);
}

/// Translates a large text that was made for one rule, within the time limit.
fn in_time(kind: Kind, method: &Method, from: Revision, to: Revision, json: String) -> Option<Payload> {
    let before = cpu_time();
    let facts = Facts { transport: MessageCarrier::Http, ..Facts::new(kind, method) };
    let carried = Payload::new(from, json.into()).into_revision(to, &facts).ok();
    let cost = cpu_time() - before;
    assert!(cost.num_seconds() < MAX_CPU_SECONDS, "{method} {from} to {to} took {cost}");
    carried
}

#[test]
fn unusual_texts_are_handled() {
    let odd = [
        "",
        "null",
        "1e400",
        "-",
        "\"\\ud800\"",
        "[]",
        "{",
        "{}",
        "{ }",
        "{\"\"\u{b4}",
        "{\"_meta\"}\"\"}",
        "[\u{e9}",
        " { \"content\" : [ ] } ",
        r#"{"content":{"type":"audio"},"structuredContent":1e400}"#,
        r#"{"content":[null,1,"x",[],{"type":["audio"]},{"type":"audio"},{"type":"audio","type":"resource_link","data":7}]}"#,
        r#"{"content":[{"type":"text","text":"\ud800"}],"content":7,"structuredContent":"\udfff","structuredContent":null}"#,
        r#"{"tools":[{"title":7,"annotations":[],"inputSchema":{"properties":[true]},"outputSchema":false},null,{"outputSchema":{}}]}"#,
        r##"{"tools":[{"outputSchema":{"$ref":"#","$id":7,"x":["#",{"\u0024ref":"#/a"}]},"inputSchema":{"x-mcp-header":null}}]}"##,
        r#"{"messages":[{"role":7,"content":[]},{"content":[{"type":"text","text":7},{"type":"text"}]},{"content":null},7]}"#,
        r#"{"requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":[1,null,"x"]},"default":7,"minItems":-1},"a__0":7,"a":7},"required":[7,"a"]}}"#,
        r#"{"task":{},"_meta":7,"resultType":7,"ttlMs":{},"\ud800":1,"capabilities":[]}"#,
        r#"{"_meta":{"io.modelcontextprotocol/related-task":1},"_meta":{"a":1},"_meta":{}}"#,
        r#"{"mode":"url","mode":"form","elicitationId":7,"includeContext":"thisServer","includeContext":7}"#,
    ];
    odd.into_iter().for_each(everywhere);
}

#[test]
fn a_rule_applies_to_repeated_members_too() {
    let json = r#"{"tools":[{"execution":1,"outputSchema":true}],"tools":[{"execution":1,"execution":2}],"\u0074ools":[{"execution":3}]}"#;
    let facts = Facts::new(Kind::Result, &Method::ToolsList);
    let carried =
        Payload::new(Revision::V2025_11_25, json.into()).into_revision(Revision::V2025_06_18, &facts).unwrap();
    assert!(!String::from_utf8_lossy(carried.json()).contains("execution"));
}

#[test]
fn errors_of_any_form_are_handled() {
    for text in [
        r#"{"code":-32042,"message":7,"data":{"elicitations":[7,{}]}}"#,
        r#"{"code":-32042,"message":"\ud800"}"#,
        r#"{"code":-32021,"message":"m","data":[1e400]}"#,
        r#"{"code":-32602,"message":"m","data":7,"code":-32602}"#,
        r#"{"code":-32002,"message":"m","data":{}}"#,
        r#"{"code":-32000,"message":"m","data":7}"#,
    ] {
        let Some(error) = ErrorObject::read(text.into()) else { continue };
        for (from, to) in Revision::ALL.into_iter().flat_map(|from| Revision::ALL.map(|to| (from, to))) {
            for method in [Method::ToolsCall, Method::ResourcesRead] {
                let facts = Facts { uri: Some("a:b"), ..Facts::new(Kind::Result, &method) };
                let outcome = error.clone().written_in(from).into_revision(to, &facts);
                assert!(!matches!(outcome, Outcome::InputRequired(_)));
            }
        }
    }
}

#[test]
fn the_cost_of_depth_is_linear() {
    let deep = |open: &str, close: &str, levels| format!("{}0{}", open.repeat(levels), close.repeat(levels));
    for nested in [deep("[", "]", 100_000), deep("{\"content\":", "}", 100_000), deep("{\"properties\":", "}", 100_000)]
    {
        let tools =
            format!(r#"{{"tools":[{{"outputSchema":{{"x":{nested}}},"inputSchema":{nested},"x-mcp-header":1}}]}}"#);
        in_time(Kind::Result, &Method::ToolsList, Revision::V2026_07_28, Revision::V2024_11_05, tools).unwrap();
        let called = format!(r#"{{"content":[{{"type":"resource_link","x":{nested}}}],"structuredContent":{nested}}}"#);
        in_time(Kind::Result, &Method::ToolsCall, Revision::V2026_07_28, Revision::V2024_11_05, called).unwrap();
        let asked =
            format!(r#"{{"requestedSchema":{{"properties":{{"a":{nested}}}}},"messages":[{{"content":{nested}}}]}}"#);
        in_time(Kind::ServerRequest, &Method::Elicit, Revision::V2026_07_28, Revision::V2025_06_18, asked.clone());
        in_time(Kind::ServerRequest, &Method::CreateMessage, Revision::V2026_07_28, Revision::V2025_06_18, asked);
    }
}

#[test]
fn the_cost_of_width_is_linear() {
    let wide = |element: &str| vec![element; 25_000].join(",");
    let numbered = |make: fn(usize) -> String| (0..12_500).map(make).collect::<Vec<_>>().join(",");
    let (newest, third) = (Revision::V2026_07_28, Revision::V2025_06_18);

    let blocks =
        format!(r#"{{"content":[{}],"structuredContent":{{"a":1}}}}"#, wide(r#"{"type":"text","text":"{\"a\":2}"}"#));
    in_time(Kind::Result, &Method::ToolsCall, newest, Revision::V2024_11_05, blocks).unwrap();
    let repeated = format!("{{{}}}", wide(r#""structuredContent":[]"#));
    in_time(Kind::Result, &Method::ToolsCall, newest, Revision::V2024_11_05, repeated).unwrap();
    let message = format!(
        r#"{{"messages":[{{"role":"user","_meta":{{"a":"{}"}},"content":[{}]}}]}}"#,
        "x".repeat(250_000),
        wide(r#"{"type":"text"}"#)
    );
    let split = in_time(Kind::ServerRequest, &Method::CreateMessage, newest, third, message).unwrap();
    assert!(split.json().len() < 20_000_000);
    let answer = format!(r#"{{"content":[{}]}}"#, wide(r#"{"type":"text","text":"a"}"#));
    in_time(Kind::Answer, &Method::CreateMessage, newest, third, answer).unwrap();

    let required = numbered(|n| format!("\"f{n}\""));
    let listed = numbered(|n| format!(r#""f{n}":{{"type":"array","items":{{"enum":[]}}}}"#));
    let titled = numbered(|n| format!(r#""f{n}":{{"type":"string","oneOf":[{{"const":"a","title":"A"}}]}}"#));
    for fields in [listed, titled] {
        let form = format!(r#"{{"requestedSchema":{{"properties":{{{fields}}},"required":[{required}]}}}}"#);
        in_time(Kind::ServerRequest, &Method::Elicit, newest, third, form).unwrap();
    }
    // each option becomes a field
    for (options, is_lowered) in [(1_000, true), (1_001, false)] {
        let name = "n".repeat(25_000);
        let options = (0..options).map(|n| format!("\"o{n}\"")).collect::<Vec<_>>().join(",");
        let form = format!(
            r#"{{"requestedSchema":{{"properties":{{"{name}":{{"type":"array","title":"{name}","items":{{"enum":[{options}]}}}}}}}}}}"#
        );
        assert_eq!(in_time(Kind::ServerRequest, &Method::Elicit, newest, third, form).is_some(), is_lowered);
    }
}

#[test]
fn a_choice_of_many_options_is_converted_both_ways() {
    let options: Vec<String> = (0..1_000).map(|n| format!("o{n}")).collect();
    let question =
        json!({ "requestedSchema": { "properties": { "f": { "type": "array", "items": { "enum": options } } } } });
    let question = Payload::of(Revision::V2026_07_28, &question);
    let content: serde_json::Map<String, Value> = (0..1_000).map(|n| (format!("f__{n}"), true.into())).collect();
    let facts = Facts { question: Some(&question), ..Facts::new(Kind::Answer, &Method::Elicit) };
    let before = cpu_time();
    let answer = Payload::of(Revision::V2025_06_18, &json!({ "action": "accept", "content": content }));
    let raised = answer.into_revision(Revision::V2026_07_28, &facts).unwrap();
    assert_eq!(super::value(&raised)["content"]["f"].as_array().unwrap().len(), 1_000);
    assert!((cpu_time() - before).num_seconds() < MAX_CPU_SECONDS);
}

#[test]
fn a_string_of_ten_megabytes_is_translated() {
    let data = "QUJD".repeat(2_500_000);
    let sound = format!(r#"{{"content":[{{"type":"audio","data":"{data}","mimeType":"audio/wav"}}]}}"#);
    let carried =
        in_time(Kind::Result, &Method::ToolsCall, Revision::V2025_11_25, Revision::V2024_11_05, sound).unwrap();
    assert!(carried.json().len() > data.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_causes_a_panic(text in any::<String>()) {
        everywhere(&text);
        everywhere(&json!({ "content": [{ "type": text }], "structuredContent": text, "tools": [{ "title": text }] }).to_string());
    }
}
