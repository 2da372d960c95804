//! A server with large results.

use mcp_flow_server::{Bulk, Context, Limits, Resource, Server, Tool, ToolOutput};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::Value;
use tokio::io::AsyncReadExt;

/// Returns a server whose results are too large for a message.
pub(crate) fn server(limits: Limits) -> Server {
    let three = Tool::builder("three").handler(async |context: Context, _: Value| {
        let mut output = ToolOutput::default();
        for tag in 1..=3 {
            let bulk = Bulk::bytes("part", payload(tag)).with_mime_type("text/plain");
            output = output.with(context.deliver(bulk).await.map_err(|error| error.to_string())?);
        }
        Ok::<_, String>(output)
    });
    let small = Tool::builder("small").handler(async |context: Context, _: Value| {
        let mut output = ToolOutput::default();
        for name in SMALL {
            let bulk = Bulk::bytes("part", name.as_bytes().to_vec());
            output = output.with(context.deliver(bulk).await.map_err(|error| error.to_string())?);
        }
        Ok::<_, String>(output)
    });
    let bytes = Tool::builder("bytes").quick(|_: &Context, arguments: Value| {
        let length = usize::try_from(arguments["length"].as_u64().unwrap()).unwrap();
        Bulk::bytes("xs", vec![b'x'; length]).with_mime_type("text/plain")
    });
    let endless = Tool::builder("endless")
        .quick(|_: &Context, _: Value| Bulk::reader("xs", tokio::io::repeat(b'x')));
    let broken = Tool::builder("broken").quick(|_: &Context, arguments: Value| {
        let good = tokio::io::repeat(b'x').take(3 * 1024 * 1024);
        let panics = arguments["panics"] == true;
        Bulk::reader("xs", good.chain(Broken { panics }))
    });
    let file = Tool::builder("file").quick(|_: &Context, arguments: Value| {
        let path = arguments["path"].as_str().unwrap();
        std::fs::File::open(path).and_then(|file| Bulk::file("file.bin", file))
    });
    let large = Resource::builder("x:/large")
        .read(async |_: Context| Bulk::bytes("large", payload(1)).with_mime_type("text/plain"));
    let tools = Vec::from([three, small, bytes, endless, broken, file].map(Result::unwrap));
    Fixture::with(|builder| builder.limits(limits).tools(tools).resources(large)).server
}

/// The parts of the tool `small`.
pub(crate) const SMALL: [&str; 3] = ["one", "two", "three"];

/// Two megabytes in which every position shows its tag.
pub(crate) fn payload(tag: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    for place in 0_u32..256 * 1024 {
        payload.extend_from_slice(&place.to_be_bytes());
        payload.extend_from_slice(&tag.to_be_bytes());
    }
    payload
}

/// A source that fails.
struct Broken {
    panics: bool,
}

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        assert!(!self.panics, "the source of the test panics");
        std::task::Poll::Ready(Err(std::io::Error::other("the disk is on fire")))
    }
}
