//! Texts of JSON that grow. What one means to a method is in the name of its list. Knows no function.

use super::Shape;

/// A text with as many copies of `each` (a number and a piece) as fit into `size` bytes.
fn filled(size: usize, (open, close): (&str, &str), each: impl Fn(usize) -> String) -> Vec<u8> {
    let mut text = open.to_owned();
    let mut number = 0;
    while text.len() + close.len() < size || number == 0 {
        if number > 0 {
            text.push(',');
        }
        text.push_str(&each(number));
        number += 1;
    }
    text.push_str(close);
    text.into_bytes()
}

/// The same piece again and again.
fn repeated(size: usize, around: (&str, &str), piece: &str) -> Vec<u8> {
    let (open, close) = around;
    let count = size.saturating_sub(open.len() + close.len()) / (piece.len() + 1);
    let pieces = format!("{piece},").repeat(count.max(1));
    format!("{open}{}{close}", pieces.trim_end_matches(',')).into_bytes()
}

/// Half of the text is copies of a short member, the other half one long string.
fn against(size: usize, around: (&str, &str), short: &str, long: (&str, &str)) -> Vec<u8> {
    let long = format!(",{}{}{}", long.0, "x".repeat(size / 2), long.1);
    repeated(size, (around.0, &(long + around.1)), short)
}

fn nested(size: usize, around: (&str, &str), (open, inner, close): (&str, &str, &str)) -> Vec<u8> {
    let levels = size.saturating_sub(around.0.len() + around.1.len()).max(2) / (open.len() + close.len());
    format!("{}{}{inner}{}{}", around.0, open.repeat(levels), close.repeat(levels), around.1).into_bytes()
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $list:ident: $($name:literal = $make:expr),* $(,)?;)*) => {
        $($(#[$doc])* pub(super) const $list: &[Shape] = &[$(Shape { name: $name, make: $make }),*];)*
    };
}

shapes! {
    /// Of any meaning.
    ANY:
        "one string" = |size| format!(r#"{{"content":"{}"}}"#, "x".repeat(size)).into_bytes(),
        "one string of escapes" = |size| format!(r#"{{"content":"{}"}}"#, r"\u0061".repeat(size / 6)).into_bytes(),
        "one string of quotes" = |size| format!(r#"{{"content":"{}"}}"#, "\\\"".repeat(size / 2)).into_bytes(),
        "white space" = |size| format!("{{{}\"a\"{}:1}}", " ".repeat(size / 2), "\n".repeat(size / 2)).into_bytes(),
        "one long number" = |size| format!(r#"{{"a":{}}}"#, "7".repeat(size)).into_bytes(),
        "one long name" = |size| format!(r#"{{"{}":1}}"#, "n".repeat(size)).into_bytes(),
        "one name of escapes" = |size| format!(r#"{{"{}":1}}"#, r"\u006e".repeat(size / 6)).into_bytes(),
        "depth of arrays" = |size| nested(size, (r#"{"content":"#, "}"), ("[", "0", "]")),
        "depth of objects" = |size| nested(size, ("", ""), (r#"{"content":"#, "0", "}")),
        "depth of metadata" = |size| nested(size, ("", ""), (r#"{"_meta":"#, "0", "}")),
        "many names" = |size| filled(size, ("{", "}"), |at| format!("\"{at}\":0")),
        "many names of escapes" = |size| filled(size, ("{", "}"), |at| format!("\"\\u006e{at}\":0")),
        "one name again and again" = |size| repeated(size, ("{", "}"), "\"a\":0"),
        "one name of escapes again and again" = |size| repeated(size, ("{", "}"), r#""\u006e\u0061me":0"#),
        "names that fold" = |size| filled(size, ("{", "}"), |at| format!("\"tas\u{212a}{at}\":0")),
        "metadata again and again" = |size| repeated(size, ("{", "}"), r#""_meta":{}"#),
        "metadata against a long value" = |size| against(size, ("{", "}"), r#""_meta":{"a":1}"#, (r#""_meta":{"b":""#, r#""}"#)),
        "many members of metadata" = |size| filled(size, (r#"{"_meta":{"#, "}}"), |at| format!("\"x/{at}\":0")),
        "tiny elements" = |size| repeated(size, (r#"{"content":["#, "]}"), "0"),
        "empty objects" = |size| repeated(size, (r#"{"content":["#, "]}"), "{}"),
        "an array of tiny elements" = |size| repeated(size, ("[", "]"), "1");
    /// Envelopes of messages.
    MESSAGES:
        "a request with a long string" = |size| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":"{}"}}}}}}"#, "x".repeat(size)).into_bytes(),
        "a request with many arguments" = |size| filled(size, (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","#, "}}"), |at| format!("\"{at}\":1")),
        "a request with a long id" = |size| format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "i".repeat(size)).into_bytes(),
        "a request with a long method" = |size| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "m/".repeat(size / 2)).into_bytes(),
        "members of an envelope again and again" = |size| repeated(size, (r#"{"jsonrpc":"2.0","method":"a","#, "}"), r#""id":1"#),
        "a result with many blocks" = |size| repeated(size, (r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#, "]}}"), r#"{"type":"text","text":""}"#),
        "a batch of numbers" = |size| repeated(size, ("[", "]"), "1"),
        "a batch of empty objects" = |size| repeated(size, ("[", "]"), "{}"),
        "a batch of pings" = |size| repeated(size, ("[", "]"), r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        "a batch of 10,000 long messages" = |size| repeated(size, ("[", "]"), &format!(r#"{{"jsonrpc":"2.0","method":"a","params":{{"a":"{}"}}}}"#, "x".repeat(size / 9_000))),
        "an error with repeated codes" = |size| repeated(size, (r#"{"jsonrpc":"2.0","id":1,"error":{"message":"","#, "}}"), r#""code":"-1""#);
    /// Results of `tools/list`.
    TOOLS:
        "small tools" = |size| repeated(size, (r#"{"tools":["#, "]}"), r#"{"name":"t","inputSchema":{"type":"object"}}"#),
        "tools that are numbers" = |size| repeated(size, (r#"{"tools":["#, "]}"), "0"),
        "tools that lack everything" = |size| repeated(size, (r#"{"tools":["#, "]}"), "{}"),
        "tools with long names and no schema" = |size| repeated(size, (r#"{"tools":["#, "]}"), &format!(r#"{{"name":"{}"}}"#, "n".repeat(300))),
        "tools again and again" = |size| against(size, ("{", "}"), r#""tools":[{"name":"t"}]"#, (r#""tools":[{"name":""#, r#""}]"#)),
        "a title against annotations" = |size| against(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"#, "}]}"), r#""annotations":{}"#, (r#""title":""#, r#"""#)),
        "annotations of a title" = |size| against(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"annotations":{"#, "}}]}"), r#""title":"a""#, (r#""title":""#, r#"""#)),
        "boolean properties" = |size| filled(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"#, "}}}]}"), |at| format!("\"{at}\":true")),
        "false properties again and again" = |size| repeated(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"#, "}}}]}"), r#""a":false"#),
        "references of a wrapped schema" = |size| repeated(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"anyOf":["#, "]}}]}"), r##"{"$ref":"#"}"##),
        "references of escapes" = |size| repeated(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"anyOf":["#, "]}}]}"), r#"{"\u0024ref":"\u0023\/a"}"#),
        "bases of references" = |size| nested(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":"#, "}]}"), (r##"{"$id":"https://x","not":{"$ref":"#","not":"##, "{}", "}}")),
        "depth of properties" = |size| nested(size, (r#"{"tools":[{"name":"t","inputSchema":"#, "}]}"), (r#"{"type":"object","properties":{"a":"#, "{}", "}}")),
        "mirrored parameters" = |size| filled(size, (r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"#, "}}}]}"), |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#)),
        "mirrored parameters below a long name" = |size| filled(size, (&format!(r#"{{"tools":[{{"name":"t","inputSchema":{{"type":"object","properties":{{"{}":{{"type":"object","properties":{{"#, "n".repeat(size / 2)), "}}}}}]}"), |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#));
    /// One tool.
    TOOL:
        "mirrored parameters of one tool" = |size| filled(size, (r#"{"name":"t","inputSchema":{"type":"object","properties":{"#, "}}}"), |at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#)),
        "a few mirrored parameters below a long name" = |size| format!(r#"{{"name":"t","inputSchema":{{"properties":{{"{}":{{"properties":{{{}}}}}}}}}}}"#, "n".repeat(size), (0..60).map(|at| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#)).collect::<Vec<_>>().join(",")).into_bytes(),
        "a long header" = |size| format!(r#"{{"name":"t","inputSchema":{{"properties":{{"a":{{"type":"string","x-mcp-header":"{}"}}}}}}}}"#, "h".repeat(size)).into_bytes(),
        "a schema beside one mirrored parameter" = |size| filled(size, (r#"{"name":"t","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"h"},"#, "}}}"), |at| format!("\"{at}\":{{}}"));
    /// Results of `tools/call`.
    CALLED:
        "text blocks" = |size| repeated(size, (r#"{"content":["#, "]}"), r#"{"type":"text","text":"a"}"#),
        "audio" = |size| repeated(size, (r#"{"content":["#, "]}"), r#"{"type":"audio","data":"","mimeType":"a"}"#),
        "one long audio" = |size| format!(r#"{{"content":[{{"type":"audio","data":"{}","mimeType":"a"}}]}}"#, "QUJD".repeat(size / 4)).into_bytes(),
        "resource links" = |size| repeated(size, (r#"{"content":["#, "]}"), r#"{"type":"resource_link","uri":"a:b","name":""}"#),
        "a link of quotes" = |size| format!(r#"{{"content":[{{"type":"resource_link","uri":"{}"}}]}}"#, "\\\"".repeat(size / 2)).into_bytes(),
        "content again and again" = |size| repeated(size, ("{", "}"), r#""content":[]"#),
        "structured numbers" = |size| repeated(size, (r#"{"content":[],"structuredContent":["#, "]}"), "0"),
        "structured quotes" = |size| format!(r#"{{"content":[],"structuredContent":"{}"}}"#, "\\\"".repeat(size / 2)).into_bytes(),
        "structured content again and again" = |size| against(size, (r#"{"content":[],"#, "}"), r#""structuredContent":{}"#, (r#""structuredContent":{"a":""#, r#""}"#)),
        "texts beside structured content" = |size| repeated(size, (r#"{"structuredContent":{"a":1},"content":["#, "]}"), r#"{"type":"text","text":"{\"a\":2}"}"#),
        "texts like a long structured content" = |size| against(size, ("{\"content\":[", "}"), r#"{"type":"text","text":"[]"}"#, (r#"{}],"structuredContent":{"a":""#, r#""}"#)),
        "a block of many members" = |size| filled(size, (r#"{"content":[{"type":"resource_link","#, "}]}"), |at| format!("\"{at}\":0")),
        "a type again and again" = |size| repeated(size, (r#"{"content":[{"data":"","#, "}]}"), r#""type":"audio""#),
        "links with a URI again and again" = |size| against(size, (r#"{"content":[{"type":"resource_link","#, "}]}"), r#""uri":"a:b""#, (r#""uri":"a:"#, r#"""#));
    /// Resources and prompts.
    LISTED:
        "resources" = |size| repeated(size, (r#"{"resources":["#, "]}"), r#"{"uri":"a:b","name":"r"}"#),
        "resources without names" = |size| repeated(size, (r#"{"resources":["#, "]}"), r#"{"uri":"a:b"}"#),
        "a long URI without a name" = |size| format!(r#"{{"resources":[{{"uri":"a:{}"}}]}}"#, "b".repeat(size)).into_bytes(),
        "null members" = |size| repeated(size, (r#"{"resources":[{"uri":"a:b","name":"r","#, "}]}"), r#""title":null"#),
        "prompts of numbers" = |size| repeated(size, (r#"{"prompts":["#, "]}"), "0"),
        "arguments of a prompt" = |size| repeated(size, (r#"{"prompts":[{"name":"p","arguments":["#, "]}]}"), r#"{"name":"a"}"#),
        "contents" = |size| repeated(size, (r#"{"contents":["#, "]}"), r#"{"uri":"a:b","text":""}"#),
        "messages of a prompt" = |size| repeated(size, (r#"{"messages":["#, "]}"), r#"{"role":"user","content":{"type":"audio","data":""}}"#);
    /// Sampling requests.
    SAMPLING:
        "messages" = |size| repeated(size, (r#"{"maxTokens":1,"messages":["#, "]}"), r#"{"role":"user","content":{"type":"text","text":""}}"#),
        "blocks of one message" = |size| repeated(size, (r#"{"maxTokens":1,"messages":[{"role":"user","content":["#, "]}]}"), r#"{"type":"text"}"#),
        "blocks that are numbers" = |size| repeated(size, (r#"{"maxTokens":1,"messages":[{"role":"user","content":["#, "]}]}"), "0"),
        "a long role of many blocks" = |size| against(size, (r#"{"messages":[{"content":["#, "]}]}"), "0", (r#"0],"role":""#, r#"","x":["#)),
        "contents of a message again and again" = |size| against(size, (r#"{"messages":[{"role":"user","#, "}]}"), r#""content":[0,0]"#, (r#""content":[{"a":""#, r#""}]"#)),
        "tools of sampling" = |size| repeated(size, (r#"{"messages":[],"tools":["#, "]}"), r#"{"name":"t","outputSchema":true}"#);
    /// Answers to sampling requests.
    SAMPLED:
        "texts of an answer" = |size| repeated(size, (r#"{"role":"assistant","model":"m","content":["#, "]}"), r#"{"type":"text","text":"a"}"#),
        "an answer of numbers" = |size| repeated(size, (r#"{"role":"assistant","content":["#, "]}"), "0");
    /// Forms.
    FORMS:
        "choices that are numbers" = |size| repeated(size, (r#"{"message":"?","requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":["#, "]}}}}}"), "0"),
        "choices below the limit" = |size| filled(size.min(6_000), (r#"{"message":"?","requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":["#, "]}}}}}"), |at| format!("\"{at}\"")),
        "long titles of choices" = |size| filled(size, (r#"{"message":"?","requestedSchema":{"properties":{"a":{"type":"array","items":{"anyOf":["#, "]}}}}}"), |at| format!(r#"{{"const":"{at}","title":"{}"}}"#, "t".repeat(size / 900))),
        "a long title of many choices" = |size| against(size, (r#"{"requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":["#, "}}}}"), "0", (r#"0]},"title":""#, r#"""#)),
        "fields of choices" = |size| filled(size, (r#"{"message":"?","requestedSchema":{"properties":{"#, "}}}"), |at| format!(r#""f{at}":{{"type":"array","items":{{"enum":["a"]}}}}"#)),
        "fields" = |size| filled(size, (r#"{"message":"?","requestedSchema":{"properties":{"#, "}}}"), |at| format!(r#""f{at}":{{"type":"string","oneOf":[{{"const":"a"}}]}}"#)),
        "one field again and again" = |size| repeated(size, (r#"{"message":"?","requestedSchema":{"properties":{"#, "}}}"), r#""f":{"type":"array","items":{"enum":[0,1]}}"#),
        "fields of a form again and again" = |size| against(size, (r#"{"message":"?","requestedSchema":{"#, "}}"), r#""properties":{"a":{"type":"array","items":{"enum":[0]}}}"#, (r#""properties":{"b":""#, r#""}"#)),
        "forms again and again" = |size| against(size, (r#"{"message":"?","#, "}"), r#""requestedSchema":{}"#, (r#""requestedSchema":{"a":""#, r#""}"#)),
        "required fields" = |size| repeated(size, (r#"{"requestedSchema":{"properties":{"a":{"type":"array","items":{"enum":["x"]}}},"required":["#, "]}}"), "\"a\""),
        "titled choices of one value" = |size| repeated(size, (r#"{"requestedSchema":{"properties":{"a":{"type":"string","oneOf":["#, "]}}}}"), r#"{"const":0}"#);
    /// Answers to forms.
    FORM_ANSWERS:
        "answers to fields" = |size| filled(size, (r#"{"action":"accept","content":{"#, "}}"), |at| format!("\"c__{at}\":true")),
        "one answer again and again" = |size| repeated(size, (r#"{"action":"accept","content":{"#, "}}"), r#""c__0":true"#);
    /// Results that require input.
    ROUNDS:
        "requests of a round" = |size| filled(size, (r#"{"inputRequests":{"#, "}}"), |at| format!(r#""{at}":{{"method":"roots/list"}}"#)),
        "one request again and again" = |size| repeated(size, (r#"{"inputRequests":{"#, "}}"), r#""a":{"method":"roots/list"}"#),
        "a few long requests" = |size| format!(r#"{{"inputRequests":{{{}}}}}"#, (0..60).map(|at| format!(r#""{at}":{{"method":"elicitation/create","params":{{"message":"{}"}}}}"#, "m".repeat(size / 60))).collect::<Vec<_>>().join(",")).into_bytes(),
        "parameters of a request again and again" = |size| against(size, (r#"{"inputRequests":{"a":{"method":"elicitation/create","#, "}}}"), r#""params":{"message":"?"}"#, (r#""params":{"message":""#, r#""}"#)),
        "metadata of a request again and again" = |size| against(size, (r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{"#, "}}}}"), r#""_meta":{"a":1}"#, (r#""_meta":{"b":""#, r#""}"#)),
        "a long state" = |size| format!(r#"{{"requestState":"{}"}}"#, "s".repeat(size)).into_bytes();
    /// Tasks.
    TASKS:
        "a task of many members" = |size| filled(size, (r#"{"task":{"taskId":"T","status":"working","#, "}}"), |at| format!("\"{at}\":0")),
        "a task id again and again" = |size| against(size, (r#"{"task":{"#, "}}"), r#""taskId":"T""#, (r#""taskId":""#, r#"""#)),
        "tasks again and again" = |size| against(size, ("{", "}"), r#""task":{"taskId":"T"}"#, (r#""task":{"taskId":""#, r#""}"#)),
        "a list of tasks" = |size| repeated(size, (r#"{"tasks":["#, "]}"), r#"{"taskId":"T","status":"working"}"#),
        "a flat task" = |size| filled(size, (r#"{"resultType":"task","taskId":"T","status":"completed","ttlMs":1,"#, "}"), |at| format!("\"{at}\":0")),
        "a lifetime again and again" = |size| against(size, (r#"{"taskId":"T","status":"working","#, "}"), r#""ttlMs":1"#, (r#""ttlMs":""#, r#"""#));
    /// Log messages.
    LOGGED:
        "a logger again and again" = |size| against(size, (r#"{"level":"info","data":1,"#, "}"), r#""logger":"""#, (r#""logger":""#, r#"""#)),
        "a long logger of escapes" = |size| format!(r#"{{"level":"info","data":1,"logger":"{}"}}"#, r"\u0001".repeat(size / 6)).into_bytes(),
        "a URI again and again" = |size| against(size, ("{", "}"), r#""uri":"a:b""#, (r#""uri":"a:"#, r#"""#));
}
