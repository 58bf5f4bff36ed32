//! A server whose results are compared with the output schemas of its tools.

use std::sync::Arc;

use super::{
    layer::{Beneath, Layer},
    server_facts::ServerFacts,
};
use crate::mcp::{Call, Context, Event, Method, Outcome, Reply, Server};

/// The layer that checks results.
pub fn output_checks() -> Layer {
    Arc::new(|Beneath { server, facts, .. }| Arc::new(CheckedOutputs { server, facts: Arc::clone(facts) }))
}

struct CheckedOutputs {
    server: Arc<dyn Server>,
    facts: Arc<ServerFacts>,
}

impl Server for CheckedOutputs {
    fn call(&self, call: Call) -> Reply {
        let checks = &self.facts.outputs;
        if !checks.is_pending() || call.method != Method::ToolsCall {
            return self.server.call(call);
        }
        let tool = call.params.string("name").unwrap_or_default();
        if !checks.is_expected(&tool) {
            return self.server.call(call);
        }
        let facts = Arc::clone(&self.facts);
        self.server.call(call).map(move |event| {
            if let Event::Done(Outcome::Complete(result)) = &event {
                facts.outputs.check(&tool, result);
            }
            event
        })
    }

    fn expect(&self, client: &Context) {
        self.server.expect(client);
    }
}
