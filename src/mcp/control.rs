//! Control members: members of a client's messages that the gateway acts on, such as names, URIs, task ids, levels and
//! tokens. If a message has one of them twice, or in another spelling, a server may read another value than the gateway
//! checked. So the message is refused. The rows of `methods` list these members.
//!
//! Names are compared by Unicode simple folding, the way Go's `encoding/json` matches struct fields. A member that
//! folds to a control member is refused even if it is the only one, because the gateway may add the real one. Other
//! members, and everything inside `arguments`, are not compared.

use super::{
    IndexedJson, Method, Payload,
    json::{name_of, scan::Members},
    methods::{ControlMember, META_MEMBERS},
    spelling::is_other_spelling,
};

/// Why a member has two readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ambiguity {
    /// It appears more than once.
    Repeated(&'static str),
    /// Its spelling differs from the protocol's.
    Misspelled {
        written: String,
        /// The name as the protocol spells it.
        meant: &'static str,
    },
}

/// Finds a control member with two readings in parameters of `method`.
pub(super) fn ambiguity(method: &Method, params: &IndexedJson) -> Option<Ambiguity> {
    find(params.members(), method.controls()).or_else(|| find(params.meta_members(), META_MEMBERS))
}

/// True if a control member in the parameters of `method` has two readings.
pub(crate) fn is_ambiguous(method: &Method, params: &Payload) -> bool {
    ambiguity(method, params.indexed()).is_some()
}

fn find<'a>(
    members: impl Iterator<Item = (&'a str, &'a str)>,
    controls: &'static [ControlMember],
) -> Option<Ambiguity> {
    let mut seen = 0_u32;
    for (written, value) in members {
        let place = match place_of(written, controls) {
            Ok(Some(place)) => place,
            Ok(None) => continue,
            Err(misspelled) => return Some(misspelled),
        };
        let control = &controls[place];
        if seen & (1 << place) != 0 {
            return Some(Ambiguity::Repeated(control.name));
        }
        seen |= 1 << place;
        if !control.inside.is_empty()
            && let Some(inside) = find(Members::of(value), control.inside)
        {
            return Some(inside);
        }
    }
    None
}

/// Position of the member in `controls`; `None` if it is not listed there.
fn place_of(written: &str, controls: &'static [ControlMember]) -> Result<Option<usize>, Ambiguity> {
    // most names are the protocol's and have no escapes
    let plain = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
    if let Some(place) = controls.iter().position(|control| plain == control.name) {
        return Ok(Some(place));
    }
    let name = name_of(written);
    if let Some(place) = controls.iter().position(|control| name == control.name) {
        return Ok(Some(place));
    }
    match controls.iter().find(|control| is_other_spelling(&name, control.name)) {
        Some(control) => Err(Ambiguity::Misspelled { written: name.into_owned(), meant: control.name }),
        None => Ok(None),
    }
}

// === impl Ambiguity ===

impl std::fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Repeated(name) => write!(f, "`{name}` is there more than once; send it once"),
            Self::Misspelled { written, meant } => {
                write!(f, "`{written}` can be read as `{meant}`; names are case-sensitive, send `{meant}` alone")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &Method, params: &str) -> Option<String> {
        let params = IndexedJson::from(params.to_owned());
        ambiguity(method, &params).map(|ambiguity| ambiguity.to_string())
    }

    #[test]
    fn every_spelling_that_folds_to_a_control_member_is_found() {
        for name in ["Name", "NAME", "nAMe", r"\u004eame", r"N\u0061me"] {
            let params = format!(r#"{{"name":"safe","{name}":"danger"}}"#);
            assert!(found(&Method::ToolsCall, &params).unwrap().contains("can be read as `name`"), "{params}");
            let params = format!(r#"{{"{name}":"danger"}}"#);
            assert!(found(&Method::PromptsGet, &params).is_some(), "{params}");
        }
        for (method, name) in [
            (Method::ResourcesRead, "Uri"),
            (Method::ToolsCall, "argument\u{17f}"),
            (Method::ToolsCall, "ta\u{17f}k"),
            (Method::ToolsCall, "tas\u{212a}"),
            (Method::TasksGet, "tas\u{212a}Id"),
            (Method::ResourcesRead, r"reque\u017ftState"),
            (Method::SetLevel, "LEVEL"),
            (Method::ToolsList, "Cursor"),
            (Method::Listen, "Notifications"),
            (Method::Cancelled, "requestid"),
            (Method::Progress, "progressto\u{212a}en"),
            (Method::TasksUpdate, "InputResponses"),
            (Method::parse("x/vendor"), "_META"),
        ] {
            assert!(found(&method, &format!(r#"{{"{name}":1}}"#)).is_some(), "{method} {name}");
        }
    }

    #[test]
    fn a_control_member_is_there_once_however_it_is_written() {
        for params in [r#"{"name":"a","name":"a"}"#, r#"{"name":"a" , "n\u0061me":"b"}"#, r#"{"\u006eame":1,"name":2}"#]
        {
            assert_eq!(
                found(&Method::ToolsCall, params).as_deref(),
                Some("`name` is there more than once; send it once")
            );
        }
        assert_eq!(found(&Method::ToolsCall, r#"{"n\u0061me":"a"}"#), None);
    }

    #[test]
    fn members_inside_a_control_member_count_too() {
        for (method, params) in [
            (Method::Complete, r#"{"ref":{"type":"ref/prompt","name":"a","Name":"b"}}"#),
            (Method::Complete, r#"{"ref":{"uri":"a","uri":"b"}}"#),
            (Method::Ping, r#"{"_meta":{"ProgressToken":1}}"#),
            (Method::ToolsCall, r#"{"_meta":{"io.modelcontextprotocol/loglevel":"debug"}}"#),
            (Method::ToolsCall, r#"{"_meta":{"io.modelcontextprotocol/clientCapabilities":{"Sampling":{}}}}"#),
            (Method::ToolsCall, r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a","TaskId":"b"}}}"#),
            (Method::Initialize, r#"{"capabilities":{"elicitation":{"url":{},"Url":{}}}}"#),
            (Method::Initialize, r#"{"clientInfo":{"name":"a","name":"b"}}"#),
            (Method::Listen, r#"{"notifications":{"taskIds":[],"TaskIds":["b1.x"]}}"#),
        ] {
            assert!(found(&method, params).is_some(), "{method} {params}");
        }
    }

    #[test]
    fn nothing_else_is_compared() {
        for (method, params) in [
            (Method::ToolsCall, r#"{"name":"a","arguments":{"name":1,"Name":2,"name":3,"_META":4},"x":1,"X":2,"x":3}"#),
            (Method::ToolsCall, r#"{"_meta":{"name":1,"Name":2,"x/y":3,"x/Y":4},"uri":1,"Uri":2}"#),
            (Method::ResourcesRead, r#"{"uri":"a","name":1,"Name":2}"#),
            (Method::Complete, r#"{"ref":{"type":"ref/prompt"},"argument":{"name":"a","Name":"b"}}"#),
            // letters that only look alike, and letters whose full folding is longer
            (Method::ToolsCall, r#"{"name":"a","nаme":"b","n\ud800ame":"c","names":"d"}"#),
            (Method::ResourcesRead, "{\"uri\":\"a\",\"ur\u{131}\":1,\"UR\u{130}\":2}"),
            (Method::ToolsCall, ""),
        ] {
            assert_eq!(found(&method, params), None, "{method} {params}");
        }
    }
}
