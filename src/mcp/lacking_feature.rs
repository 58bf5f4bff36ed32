//! Features that one side of a message has and the other lacks, with their names in logs, metrics and errors.

use super::Method;

/// A feature that the receiver of a message lacks: its version has no form for it, or it did not declare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LackingFeature {
    /// Elicitation in any mode.
    Elicitation,
    /// Elicitation by a form.
    ElicitationByForm,
    /// Elicitation by a URL.
    ElicitationByUrl,
    /// A form with more choices than its fields can show.
    ManyChoices,
    /// A form field that takes several choices, with a bound on their number.
    SeveralChoices,
    Sampling,
    SamplingTools,
    /// Context of other servers in sampling.
    SamplingContext,
    SamplingAudio,
    /// Several content blocks in one sampling message.
    SamplingBlocks,
    Roots,
    Tasks,
    /// A type of result.
    ResultType,
    /// A message that would become many times longer.
    Growth,
    /// A method or a notification.
    Method(String),
}

/// A capability of a client, or part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CapabilityPart {
    /// `sampling`, `elicitation`, `roots` or `tasks`.
    pub(crate) capability: &'static str,
    /// The part; `None` for the capability itself.
    pub(crate) part: Option<&'static str>,
}

// === impl LackingFeature ===

impl LackingFeature {
    /// The feature that a server's request of this method needs; `None` for methods unknown to every version.
    pub(crate) fn of_request(method: &Method) -> Option<Self> {
        match method {
            Method::Elicit => Some(Self::Elicitation),
            Method::CreateMessage => Some(Self::Sampling),
            Method::RootsList => Some(Self::Roots),
            method if method.is_of_core_tasks() => Some(Self::Tasks),
            _ => None,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Elicitation => "elicitation",
            Self::ElicitationByForm => "elicitation.form",
            Self::ElicitationByUrl => "elicitation.url",
            Self::ManyChoices => "elicitation with more than 1,000 choices",
            Self::SeveralChoices => "elicitation of several choices",
            Self::Sampling => "sampling",
            Self::SamplingTools => "sampling.tools",
            Self::SamplingContext => "sampling.context",
            Self::SamplingAudio => "audio in sampling",
            Self::SamplingBlocks => "several blocks in sampling",
            Self::Roots => "roots",
            Self::Tasks => "tasks",
            Self::ResultType => "resultType",
            Self::Growth => "growth",
            Self::Method(name) => name,
        }
    }

    /// Name in metrics. Unknown features share one, since peers could make names up.
    pub fn label(&self) -> &str {
        match self {
            Self::Method(name) if matches!(Method::parse(name), Method::Other(_)) => "other",
            known => known.name(),
        }
    }

    /// The capability that a client declares for it; `None` if there is none.
    pub(crate) const fn capability(&self) -> Option<CapabilityPart> {
        let (capability, part) = match self {
            Self::Elicitation | Self::SeveralChoices => ("elicitation", None),
            Self::ElicitationByForm | Self::ManyChoices => ("elicitation", Some("form")),
            Self::ElicitationByUrl => ("elicitation", Some("url")),
            Self::Sampling | Self::SamplingAudio | Self::SamplingBlocks => ("sampling", None),
            Self::SamplingTools => ("sampling", Some("tools")),
            Self::SamplingContext => ("sampling", Some("context")),
            Self::Roots => ("roots", None),
            Self::Tasks => ("tasks", None),
            Self::ResultType | Self::Growth | Self::Method(_) => return None,
        };
        Some(CapabilityPart { capability, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_makes_up_a_name_for_metrics() {
        let method = |name: &str| LackingFeature::Method(name.to_owned());
        assert_eq!((method("x-vendor/do").label(), method("x-vendor/do").name()), ("other", "x-vendor/do"));
        assert_eq!(method("tasks/get").label(), "tasks/get");
        assert_eq!(LackingFeature::ElicitationByUrl.label(), "elicitation.url");
    }

    #[test]
    fn a_request_of_a_server_is_of_a_feature_that_clients_declare() {
        for method in [Method::Elicit, Method::CreateMessage, Method::RootsList, Method::TasksGet] {
            assert!(
                LackingFeature::of_request(&method).is_some_and(|feature| feature.capability().is_some()),
                "{method}"
            );
        }
        assert_eq!(LackingFeature::of_request(&Method::Other("x-vendor/do".into())), None);
        assert_eq!(LackingFeature::Growth.capability(), None);
    }
}
