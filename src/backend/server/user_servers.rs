//! One backend as a server for each user, for servers that need something of each user first: a login or a secret
//! (`UP-1`). Each user has connections, lists and state that no other user can reach.
//!
//! A user who has not given what the server needs sees a server with one tool, which leads to the page for that
//! (`unconnected`).

mod authorization_required;
mod levels;
mod listen;
mod places;
mod table;
mod unconnected;

use std::sync::Arc;

pub(crate) use self::table::UserServers;
pub use self::unconnected::CONNECT_TOOL;
use self::{table::UsedServer, unconnected::Unconnected};
use crate::{
    mcp::{Call, Event, Method, Outcome, Payload, Reply, Server},
    model::{Requester, UserId},
};

/// A backend that has a server of its own for each user.
pub(crate) struct PerUserServer(pub(crate) Arc<UserServers>);

impl Server for PerUserServer {
    fn call(&self, call: Call) -> Reply {
        let servers = Arc::clone(&self.0);
        if let Some(heard) = &call.context.heard {
            return listen::passed(&servers, heard, &call);
        }
        if call.context.requester == Requester::Gateway {
            return listen::of_gateway(&servers, &call);
        }
        if call.method == Method::Listen {
            return listen::of_user(servers, call);
        }
        if let Some(server) = servers.of(&call.context.caller.user) {
            return serve(servers, server, call);
        }
        Reply::later(async move {
            let user = call.context.caller.user.clone();
            match servers.open(&user, Some(&call.context.wait)).await {
                Ok(Some(server)) => serve(servers, server, call),
                Ok(None) => unconnected_server(&servers, &user).call(&call),
                Err(error) => Reply::failed(error),
            }
        })
    }
}

/// Serves a call at the user's server. If it fails because a login is required, the user is asked to log in.
fn serve(servers: Arc<UserServers>, served: UsedServer, call: Call) -> Reply {
    if unconnected::is_own_tool(&call) {
        return own_tool(servers, served, call);
    }
    let (method, client) = (call.method.clone(), Arc::clone(&call.context.client));
    let user = call.context.caller.user.clone();
    let reply = served.server.server.call(call);
    let mut in_use = Some(served);
    reply.map(move |event| {
        // a subscription keeps the server in use for longer than this call
        in_use.take_if(|_| matches!(event, Event::Done(_)));
        match event {
            Event::Done(Outcome::Failed(error)) if error.requires_login() => {
                let outcome = unconnected_server(&servers, &user).outcome(&method, &client);
                Event::Done(outcome.unwrap_or(Outcome::Failed(error)))
            }
            event => event,
        }
    })
}

/// Serves the tool that leads to the page, for a user who has been there already: the server may require more by now.
fn own_tool(servers: Arc<UserServers>, served: UsedServer, call: Call) -> Reply {
    let (method, client) = (call.method.clone(), Arc::clone(&call.context.client));
    let user = call.context.caller.user.clone();
    let params = Payload::absent(client.revision);
    let listing = served.server.server.call(Call { method: Method::ToolsList, params, ..call });
    Reply::later(async move {
        let listed = listing.outcome().await;
        drop(served);
        match listed {
            Outcome::Failed(error) if error.requires_login() => {
                let outcome = unconnected_server(&servers, &user).outcome(&method, &client);
                Reply::done(outcome.unwrap_or(Outcome::Failed(error)))
            }
            _ => unconnected::connected(servers.backend()),
        }
    })
}

fn unconnected_server(servers: &UserServers, user: &UserId) -> Unconnected {
    Unconnected { backend: servers.backend().clone(), page: servers.page(user) }
}
