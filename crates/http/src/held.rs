//! Answers that are counted among what the server holds until they have left.

use bytes::Bytes;
use mcp_flow_server::load::Load;

use crate::answer::{Answer, AnswerBody};

/// Counts the body of an answer, wherever it is kept: over HTTP/2 a client may let answers pile up
/// without a connection being stuck.
pub(crate) fn count(answer: &mut Answer, load: &Load) {
    if let AnswerBody::Whole(Some(bytes)) | AnswerBody::Keeping(Some(bytes), _) = answer.body_mut()
        && bytes.len() > SMALL
    {
        let held = load.count(bytes.len());
        *bytes = Bytes::from_owner(Owned { bytes: std::mem::take(bytes), with: held });
    }
}

/// Bytes, and what is dropped with the last piece of them.
pub(crate) struct Owned<T> {
    pub(crate) bytes: Bytes,
    #[allow(dead_code, reason = "it is kept to be dropped")]
    pub(crate) with: T,
}

impl<T> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What is no longer costs less than the connection it leaves by.
const SMALL: usize = 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::body::Body as _;
    use mcp_flow_server::load::Load;

    use super::{SMALL, count};
    use crate::answer::json;

    /// PAT-024: an answer counts until the last piece of it is gone.
    #[tokio::test]
    async fn an_answer_counts_until_it_has_left() {
        let load = Load::default();
        for (length, counted) in [(0, 0), (SMALL, 0), (SMALL + 1, SMALL + 1)] {
            let mut answer = json(StatusCode::OK, vec![b'x'; length]);
            count(&mut answer, &load);
            assert_eq!(load.bytes(), counted);
            let mut body = answer.into_body();
            let frame =
                std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context));
            let mut bytes: Bytes = frame.await.unwrap().unwrap().into_data().unwrap();
            drop(body);
            let last = bytes.split_off(length / 2);
            drop(bytes);
            assert_eq!((load.bytes(), last.len()), (counted, length - length / 2));
            drop(last);
            assert_eq!(load.bytes(), 0);
        }
    }
}
