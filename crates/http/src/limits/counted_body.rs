//! Memory accounting of response bodies.

use bytes::Bytes;
use mcp_flow_server::load::Load;

use crate::response::{HttpResponse, ResponseBody};

/// Counts a complete body against the server's memory limit until its last piece is sent: over
/// HTTP/2, unread responses pile up without blocking the connection.
pub(crate) fn count(response: &mut HttpResponse, load: &Load) {
    if let ResponseBody::Whole(Some(bytes)) | ResponseBody::WithFollowUps(Some(bytes), _) =
        response.body_mut()
        && bytes.len() > SMALL
    {
        let held = load.count(bytes.len());
        *bytes = with_guard(std::mem::take(bytes), held);
    }
}

/// Attaches a guard to bytes; it is dropped with the last piece of them.
pub(crate) fn with_guard(bytes: Bytes, guard: impl Send + 'static) -> Bytes {
    Bytes::from_owner(Guarded { bytes, _guard: guard })
}

struct Guarded<T> {
    bytes: Bytes,
    _guard: T,
}

impl<T> AsRef<[u8]> for Guarded<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bodies up to this size are not counted: the connection itself costs more.
const SMALL: usize = 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hyper::StatusCode;
    use hyper::body::Body as _;
    use mcp_flow_server::load::Load;

    use super::{SMALL, count};
    use crate::response::json;

    /// PAT-024: a body counts until the last piece of it is dropped.
    #[tokio::test]
    async fn bodies_are_counted_until_they_are_sent() {
        let load = Load::default();
        for (length, counted) in [(0, 0), (SMALL, 0), (SMALL + 1, SMALL + 1)] {
            let mut response = json(StatusCode::OK, vec![b'x'; length]);
            count(&mut response, &load);
            assert_eq!(load.bytes(), counted);
            let mut body = response.into_body();
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
