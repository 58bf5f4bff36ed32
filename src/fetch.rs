//! Requests to URLs that someone other than the operator chooses: clients, their documents, servers and their documents
//! (`OA-47`, `UP-5`).
//!
//! # Use
//!
//! [`Fetcher::send`] takes a [`FetchRequest`] and the [`FetchRules`] of its kind, and returns the response of any
//! status, including redirects, which are not followed. The host is resolved once, all its addresses must be public,
//! and the connection goes to one of them, through the operator's proxy if there is one. [`Reach`] holds exceptions,
//! which only the operator makes. Each request is first charged to a [`FetchBudget`], which limits what one stranger
//! can have the gateway do.
//!
//! Documents that are read repeatedly are [`Documents`]: kept as long as their hosts say, with one request at a time.
//!
//! URLs chosen by the operator, or by the person who runs this program, need no guard: [`OpenClient`], over the same
//! connector as requests to servers.
//!
//! [`FetchError`] is for the log. A stranger who could read it would have a port scanner inside this network.

pub mod address;
pub mod budget;
pub mod cause;
pub mod coding;
pub mod connector;
pub mod destination;
pub mod documents;
pub mod egress;
pub mod error;
mod exchange;
pub mod fetcher;
mod freshness;
pub mod network;
pub mod open_client;
pub mod proxied_network;
pub mod request;
pub mod tls;

pub use self::{
    budget::{FetchBudget, FetchLimit, LimitedBy},
    destination::{Exception, Ports, Reach},
    documents::{DocumentError, Documents, FetchedDocument},
    egress::{EgressFault, own_proxy_fault},
    error::{FetchError, ProxyFailure, RefusedUrl},
    exchange::{BodyBound, is_stream},
    fetcher::{FetchRules, Fetcher},
    network::{Network, NetworkStream, SystemNetwork},
    open_client::{OpenBounds, OpenClient, send_over},
    proxied_network::ProxiedNetwork,
    request::FetchRequest,
};
