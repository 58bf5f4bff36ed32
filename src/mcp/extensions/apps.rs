//! MCP Apps (`io.modelcontextprotocol/ui`): a page that a host shows for a tool, and its predecessor (`openai/…`). The
//! page is a resource of the server; it exchanges messages with the host, not with the server.

use super::{
    super::{
        json::At::{self, Key},
        methods::places::Paths,
    },
    extension::Extension,
};

/// The pages of tools.
pub(super) struct AppsExtension;

const META: At = Key("_meta");

/// Paths in a tool, and in its result.
const PAGES: Paths =
    &[&[META, Key("ui"), Key("resourceUri")], &[META, Key("ui/resourceUri")], &[META, Key("openai/outputTemplate")]];

impl Extension for AppsExtension {
    fn id(&self) -> &'static str {
        "io.modelcontextprotocol/ui"
    }

    fn tool_uris(&self) -> Paths {
        PAGES
    }

    fn result_uris(&self) -> Paths {
        PAGES
    }
}
