//! Properties of a method, read from its row.

use std::fmt;

use super::{
    super::{Era, Payload, Revision, extensions, spelling},
    controls::{self, ControlMember},
    lists::ListKind,
    places::{self, Paths},
    row::{Asks, MethodAccess, MethodSubject, ResultShape, UriPlaces},
    rows::Method,
    shapes::Shape,
};

// === impl ListKind ===

impl ListKind {
    /// The notifications that report a changed list.
    pub(crate) const CHANGES: [Method; 3] =
        [Self::CHANGING[0].change(), Self::CHANGING[1].change(), Self::CHANGING[2].change()];

    /// The kind of list that `method` returns; `None` if it returns none.
    pub(crate) fn listed_by(method: &Method) -> Option<Self> {
        method.row().lists.first().copied().filter(|_| !method.is_notification())
    }

    /// The lists that a notification reports as changed; empty for a request.
    pub(crate) fn changed_by(method: &Method) -> &'static [Self] {
        if method.is_notification() { method.row().lists } else { &[] }
    }

    /// The method that returns this list.
    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Tools => Method::ToolsList,
            Self::Prompts => Method::PromptsList,
            Self::Resources => Method::ResourcesList,
            Self::Templates => Method::ResourceTemplatesList,
        }
    }

    /// The notification that reports a change of this list.
    pub(crate) const fn change(self) -> Method {
        match self {
            Self::Tools => Method::ToolsListChanged,
            Self::Prompts => Method::PromptsListChanged,
            Self::Resources | Self::Templates => Method::ResourcesListChanged,
        }
    }

    /// The paths to URIs in an entry.
    pub(crate) fn uris(self) -> Paths {
        match self {
            Self::Tools => extensions::tool_uris(),
            Self::Prompts => &[],
            Self::Resources => places::RESOURCE_URIS,
            Self::Templates => places::TEMPLATE_URIS,
        }
    }
}

// === impl Method ===

impl Method {
    /// True if some readers mistake this unknown name for a known method.
    pub fn is_misspelled(&self) -> bool {
        let Self::Other(name) = self else { return false };
        let folded = spelling::folded(name);
        Self::defined().any(|(known, _)| known.eq_ignore_ascii_case(&folded))
    }

    /// True if MCP itself does not define the method.
    pub const fn is_of_extension(&self) -> bool {
        matches!(self, Self::Other(_) | Self::Extended(_))
    }

    /// The callers that may send this method.
    pub fn access(&self) -> MethodAccess {
        self.row().access
    }

    /// True if this version of the protocol has the method, or if no version defines it.
    pub fn is_in(&self, revision: Revision) -> bool {
        let (oldest, newest) = self.row().versions;
        (oldest..=newest).contains(&revision)
    }

    /// True if messages of this method have no answer.
    pub fn is_notification(&self) -> bool {
        self.as_str().starts_with("notifications/")
    }

    /// True if the request exists only in 2026-07-28. Such a request is invalid in a session.
    pub fn is_sessionless(&self) -> bool {
        self.row().versions.0 > Revision::NEWEST_LEGACY && !self.is_notification()
    }

    /// True for every `tasks/…` request, even an unknown one.
    pub fn is_about_tasks(&self) -> bool {
        self.as_str().starts_with("tasks/")
    }

    /// True for the task methods of 2025-11-25, which servers of other legacy versions do not know.
    pub fn is_of_core_tasks(&self) -> bool {
        self.is_known_about_tasks() && self.is_in(Revision::V2025_11_25)
    }

    /// True for the task methods of the tasks extension.
    pub fn is_of_tasks_extension(&self) -> bool {
        self.is_known_about_tasks() && self.is_in(Revision::V2026_07_28)
    }

    fn is_known_about_tasks(&self) -> bool {
        matches!(self.access(), MethodAccess::OwnTask)
    }

    /// The name that this method has for a client of `revision`: the notification of a task's status has one name in
    /// 2025-11-25 and another in the extension for 2026-07-28.
    #[must_use]
    pub fn of_tasks_in(self, revision: Revision) -> Self {
        match (self, revision.era()) {
            (Self::Tasks, Era::Legacy) => Self::TaskStatus,
            (Self::TaskStatus, Era::Modern) => Self::Tasks,
            (method, _) => method,
        }
    }

    /// True if a server may send its client requests while it serves a request of this method. Lists, settings and task
    /// methods do not allow it, except for the method that waits for a task's result.
    pub fn may_ask(&self) -> bool {
        !matches!(self.row().asks, Asks::Never)
    }

    /// True if a server of 2026-07-28 may end a request of this method with server requests (2026-07-28, multi
    /// round-trip requests).
    pub fn may_require_input(&self) -> bool {
        matches!(self.row().asks, Asks::Always)
    }

    /// True if the request counts toward the limit `calls`.
    pub(crate) fn is_bounded(&self) -> bool {
        self.row().is_bounded
    }

    /// True if the result has cache hints (2026-07-28, caching).
    pub(crate) fn is_cacheable(&self) -> bool {
        self.row().is_cacheable
    }

    pub(crate) fn result(&self) -> ResultShape {
        self.row().result
    }

    /// The defined members of the parameters; `None` if no version restricts them.
    pub(in crate::mcp) fn params_shape(&self) -> Option<Shape> {
        self.row().params_shape
    }

    /// The defined members of the result; `None` if no version restricts them.
    pub(in crate::mcp) fn result_shape(&self) -> Option<Shape> {
        self.row().result_shape
    }

    /// The kind of object that a request names, such as a tool or a URI. It decides which server gets the request.
    pub(crate) fn subject(&self) -> Option<MethodSubject> {
        self.row().subject
    }

    /// The member of the parameters that the header `Mcp-Name` mirrors (2026-07-28, transports, *Request Metadata*).
    pub(crate) fn mirrored_member(&self) -> Option<&'static str> {
        let subject = self.subject().filter(|subject| *subject != MethodSubject::Reference)?;
        self.is_in(Revision::V2026_07_28).then(|| subject.member())
    }

    /// The members of the parameters that the gateway acts on. A custom method about tasks may name a task.
    pub(in crate::mcp) fn controls(&self) -> &'static [ControlMember] {
        match self {
            Self::Other(_) if self.is_about_tasks() => controls::TASK,
            _ => self.row().controls,
        }
    }

    /// The paths to URIs in the result of this request, or in the parameters of this message from a server.
    pub(crate) fn uris(&self) -> Paths {
        match self.row().uris {
            UriPlaces::In(paths) => paths,
            UriPlaces::ToolResult => extensions::tool_result_uris(),
            UriPlaces::Task => extensions::task_uris(),
        }
    }

    /// True if that result or those parameters may hold server requests, as a task that waits for input does.
    pub(crate) fn holds_input_requests(&self) -> bool {
        self.row().holds_input_requests
    }

    /// The paths to task ids in the result of this request, or in the parameters of this message from a server.
    pub(crate) fn task_ids(&self) -> Paths {
        self.row().task_ids
    }

    /// The paths to task ids in this result. A tool may use `taskId` for something else, so its result counts only if
    /// it is a task.
    pub(crate) fn task_ids_in(&self, result: &Payload) -> Paths {
        match self {
            Self::ToolsCall if result.string("resultType").as_deref() == Some("task") => Self::TasksGet.task_ids(),
            _ => self.task_ids(),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn a_name_that_nobody_knows_is_kept() {
        assert_eq!(Method::parse("tools/call"), Method::ToolsCall);
        assert_eq!(Method::parse("x-vendor/do").as_str(), "x-vendor/do");
        assert!(Method::parse("notifications/x-vendor").is_notification());
    }

    #[test]
    fn each_version_has_the_methods_of_its_schema() {
        for revision in Revision::ALL {
            let file = format!("{}/tests/schema/{revision}/schema.json", env!("CARGO_MANIFEST_DIR"));
            let schema: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            let definitions = schema.get("definitions").or_else(|| schema.get("$defs")).unwrap().as_object().unwrap();
            let named = definitions.values().filter_map(|one| one["properties"]["method"]["const"].as_str());
            let of_schema: BTreeSet<&str> = named.collect();
            // for 2026-07-28, tasks are an extension, with a schema of its own
            let is_of_extension = |method: &Method| {
                revision.era() == Era::Modern && (method.is_about_tasks() || *method == Method::Tasks)
            };
            let has = |(name, _): &(&str, MethodAccess)| {
                let method = Method::parse(name);
                method.is_in(revision) && !is_of_extension(&method)
            };
            let known: BTreeSet<&str> = Method::defined().filter(has).map(|(name, _)| name).collect();
            assert_eq!(known, of_schema, "{revision}");
        }
    }

    #[test]
    fn methods_of_tasks_are_of_the_core_or_of_the_extension_or_of_both() {
        let named = |is_of: fn(&Method) -> bool| {
            let names = Method::defined().map(|(name, _)| name);
            names.filter(|name| is_of(&Method::parse(name))).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named(Method::is_of_core_tasks), "tasks/get tasks/result tasks/list tasks/cancel");
        assert_eq!(named(Method::is_of_tasks_extension), "tasks/get tasks/cancel tasks/update");
        assert_eq!(named(Method::is_sessionless), "server/discover subscriptions/listen tasks/update");
    }

    #[test]
    fn a_name_that_reads_like_a_methods_is_found() {
        for name in [
            "Tools/Call",
            "logging/setlevel",
            "tool\u{17f}/call",
            "tas\u{212a}s/get",
            "tools//call",
            " tools/call\u{a0}",
            "tools/call\0",
            "\u{ff54}ools\u{ff0f}call",
            "to\u{200b}ols/call",
            "notifications/me\u{df}age",
        ] {
            assert!(Method::parse(name).is_misspelled(), "{name}");
        }
        for name in ["tools/call", "tools/calls", "x-vendor/Do"] {
            assert!(!Method::parse(name).is_misspelled(), "{name}");
        }
    }
}
