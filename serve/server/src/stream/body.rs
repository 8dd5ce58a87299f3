//! The body of an answer that goes on.

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Sends what is put into a queue, until nobody can put anything in any more.
#[derive(Debug)]
pub(crate) struct StreamBody {
    first: Option<Bytes>,
    messages: mpsc::Receiver<Bytes>,
}

impl StreamBody {
    pub(super) fn new(messages: mpsc::Receiver<Bytes>) -> Self {
        Self {
            first: None,
            messages,
        }
    }

    /// The same behind something that was taken from the queue already.
    pub(crate) fn beginning_with(first: Bytes, messages: mpsc::Receiver<Bytes>) -> Self {
        Self {
            first: Some(first),
            messages,
        }
    }
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        self.messages
            .poll_recv(context)
            .map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}
