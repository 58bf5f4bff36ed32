//! A response body of several parts, whose length is known. Knows nothing of their content.

use std::{
    array,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// A body of three parts.
#[derive(Debug)]
pub(super) struct PartedBody(array::IntoIter<Bytes, 3>);

impl PartedBody {
    /// The body of these parts, one after another.
    pub(super) fn new(parts: [Bytes; 3]) -> Self {
        Self(parts.into_iter())
    }
}

impl Body for PartedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.next().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        let length = self.0.as_slice().iter().map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn the_parts_come_in_order_and_say_their_length() {
        let mut body = PartedBody::new(["a", "", "bc"].map(Bytes::from));
        assert_eq!(body.size_hint().exact(), Some(3));
        body.frame().await.unwrap().unwrap();
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "bc");
    }
}
