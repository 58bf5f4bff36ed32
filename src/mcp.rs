//! The protocol: messages, revisions and calls as values.
//!
//! The narrow waist of the gateway: a [`Server`] takes a [`Call`] and returns a [`Reply`]. The gateway is a server made
//! of servers; so is a scripted test double.

pub mod call;
pub mod cancel_reason;
pub(crate) mod client_translator;
pub(crate) mod control;
pub(crate) mod declared;
pub(crate) mod deferred_requests;
pub mod error;
pub(crate) mod extensions;
mod heard_event;
pub mod hearers;
pub mod indexed_json;
pub mod json;
pub mod jsonrpc;
pub mod lacking_feature;
pub(crate) mod large_messages;
pub mod level;
pub mod lifecycle;
mod line_separators;
pub mod listen;
mod lone_surrogates;
pub mod meta;
pub mod methods;
pub mod mirrored_params;
pub(crate) mod monotonic_progress;
pub mod observer;
pub(crate) mod pass_through;
pub mod payload;
pub(crate) mod pending_request;
pub mod profile;
pub mod reply;
pub mod revision;
pub mod server_origin;
pub mod sole_client;
mod spelling;
pub(crate) mod task;
mod tool_hint;
pub mod translate;
pub mod uri;

pub use call::{Call, Capabilities, ClientInfo, Context, Server, WaitNotice};
pub use cancel_reason::CancelReason;
pub use error::ErrorObject;
pub use heard_event::HeardEvent;
pub use indexed_json::IndexedJson;
pub use jsonrpc::{Message, RequestId};
pub use lacking_feature::LackingFeature;
pub use level::{Level, LogLevel};
pub(crate) use methods::ListKind;
pub use methods::Method;
pub use payload::Payload;
pub(crate) use reply::MAX_PROGRESS_SIZE;
pub use reply::{Answer, AnswerEvent, AnswerReceiver, Event, Notification, Outcome, Reply, ServerRequest, Step};
pub use revision::{Era, Feature, Revision};
pub use server_origin::ServerOrigin;
pub use sole_client::SoleClient;
pub(crate) use tool_hint::ToolHint;
pub use translate::{Facts, Untranslatable};
