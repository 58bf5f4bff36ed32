//! One page of a list of several backends as the gateway writes it. Knows nothing of where the entries come from.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{catalog::Kind, hints::Hints};
use crate::mcp::{Era, Payload, Revision, json, meta};

/// One page.
pub(crate) struct Page {
    /// What it lists.
    pub(crate) kind: Kind,
    /// The version that the entries are written in.
    pub(crate) revision: Revision,
    /// The entries, as they are.
    pub(crate) entries: Vec<Bytes>,
    /// The cursor of the next page.
    pub(crate) next: Option<String>,
    /// How long it may be kept, and by whom.
    pub(crate) hints: Hints,
    /// The `Implementation` that it is in the name of.
    pub(crate) server: Option<Bytes>,
}

impl Page {
    /// The result: the entries byte for byte, within what their version puts around them.
    pub(crate) fn written(&self) -> Payload {
        let modern = self.revision.era() == Era::Modern;
        let size: usize = self.entries.iter().map(|entry| entry.len() + 1).sum();
        let mut text = BytesMut::with_capacity(size + 512);
        let start = if modern { r#"{"resultType":"complete","# } else { "{" };
        text.put_slice(format!("{start}\"{}\":[", self.kind.member()).as_bytes());
        for (at, entry) in self.entries.iter().enumerate() {
            if at > 0 {
                text.put_u8(b',');
            }
            text.put_slice(entry);
        }
        text.put_u8(b']');
        if let Some(next) = &self.next {
            text.put_slice(format!(",\"nextCursor\":{}", json::quote(next)).as_bytes());
        }
        if modern {
            self.put_envelope(&mut text);
        }
        text.put_u8(b'}');
        let page = Payload::new(self.revision, text.freeze());
        match &self.server {
            Some(server) => page.of_server(String::from_utf8_lossy(server).into()),
            None => page,
        }
    }

    /// What every list of 2026-07-28 says beside its entries.
    fn put_envelope(&self, text: &mut BytesMut) {
        let Hints { ttl, scope } = self.hints;
        text.put_slice(format!(",\"ttlMs\":{ttl},\"cacheScope\":\"{}\"", scope.as_str()).as_bytes());
        if let Some(server) = &self.server {
            text.put_slice(format!(",\"{}\":{{\"{}\":", meta::META, meta::SERVER_INFO).as_bytes());
            text.put_slice(server);
            text.put_u8(b'}');
        }
    }
}
