//! What `subscriptions/listen` can choose beside resources (2026-07-28, subscriptions). Data alone.

use super::Method;

/// The lists whose changes can be listened to: the member of the filter, the capability, the notification.
pub const LISTS: [(&str, &str, Method); 3] = [
    ("toolsListChanged", "tools", Method::ToolsListChanged),
    ("promptsListChanged", "prompts", Method::PromptsListChanged),
    ("resourcesListChanged", "resources", Method::ResourcesListChanged),
];
