"""A WebTransport session as MCP-Flow 0.1 uses it, on aioquic and cbor2 alone.

Written from the text of MCP-Flow 0.1 and from nothing else, so that it can judge a server. It is as
strict as the text: what the server sends in a form the text does not give ends the session with an
`AssertionError`, wherever it is.
"""

import asyncio
import hashlib
import io
import json
import ssl
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import cbor2
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import (
    DataReceived,
    DatagramReceived,
    HeadersReceived,
    WebTransportStreamDataReceived,
)
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from cryptography.hazmat.primitives.serialization import Encoding

# Time limit for any operation, to catch hangs.
LIMIT = 20

PROGRESS, AUDIO, LOG = 1, 2, 3
CLOSE_SESSION = 0x2843


@dataclass
class Stream:
    """An execution stream with the data received so far."""

    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: int | None = None

    @property
    def header(self) -> tuple[int, int] | None:
        """Request id and tag, once all eight bytes have arrived."""
        return struct.unpack(">II", self.data[:8]) if len(self.data) >= 8 else None

    @property
    def payload(self) -> bytes:
        return bytes(self.data[8:])


@dataclass
class Datagram:
    channel: int
    request: int
    payload: bytes


class Session(QuicConnectionProtocol):
    """One session: its control stream, the streams the server opened, and its datagrams."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.h3 = H3Connection(self._quic, enable_webtransport=True)
        self.encoding = "json"
        self.status: int | None = None
        self.number = 0
        self.inbox: list = []
        self.notices: list[dict] = []
        self.streams: dict[int, Stream] = {}
        self.datagrams: list[Datagram] = []
        self.stopped: dict[int, int] = {}
        self.closing: tuple[int, str] | None = None
        self.ended = False
        self.fault: AssertionError | None = None
        self._session: int | None = None
        self._control: int | None = None
        self._received = bytearray()
        self._capsules = bytearray()
        self._changed = asyncio.Event()

    # Client operations.

    async def open(self, authority: str, path: str, origin: str | None) -> int:
        """Requests a session and returns the status of the response."""
        self._session = self._quic.get_next_available_stream_id()
        headers = {":method": "CONNECT", ":scheme": "https", ":authority": authority}
        headers |= {":path": path, ":protocol": "webtransport"}
        if origin is not None:
            headers["origin"] = origin
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.h3.send_headers(self._session, encoded)
        self.transmit()
        await self.until(lambda: self.status is not None)
        if self.status == 200:
            self._control = self.h3.create_webtransport_stream(self._session)
        return self.status

    def write(self, data: bytes) -> None:
        """Writes raw bytes on the control stream."""
        self._quic.send_stream_data(self._control, data)
        self.transmit()

    def frame(self, body: bytes) -> None:
        self.write(struct.pack(">I", len(body)) + body)

    def send(self, message: dict, encoding: str | None = None) -> None:
        self.frame(encode(message, encoding or self.encoding))

    def notify(self, method: str, **params) -> None:
        self.send({"jsonrpc": "2.0", "method": method} | ({"params": params} if params else {}))

    def ask(self, method: str, params: dict | None = None) -> int:
        """Sends a request and returns its id."""
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method}
        self.send(message | ({} if params is None else {"params": params}))
        return self.number

    async def receive(self) -> dict:
        """The next message of any kind."""
        await self.until(lambda: self.inbox)
        return self.inbox.pop(0)

    async def answer(self, id: int | None) -> dict:
        """The response to a request; earlier notifications are kept."""

        def found():
            return next((m for m in self.inbox if "method" not in m and m["id"] == id), None)

        await self.until(lambda: found() is not None)
        response = found()
        at = next(i for i, message in enumerate(self.inbox) if message is response)
        self.inbox.pop(at)
        early = [m for m in self.inbox[:at] if "method" in m]
        self.notices += early
        self.inbox = [m for m in self.inbox if not any(m is notice for notice in early)]
        return response

    async def notice(self, method: str) -> dict:
        """The params of the next notification of a method, which may have arrived already."""

        def found():
            every = self.notices + self.inbox
            return next((m for m in every if m.get("method") == method), None)

        await self.until(lambda: found() is not None)
        message = found()
        self.notices = [m for m in self.notices if m is not message]
        self.inbox = [m for m in self.inbox if m is not message]
        return message.get("params", {})

    async def request(self, method: str, params: dict | None = None) -> dict:
        return await self.answer(self.ask(method, params))

    async def call(self, name: str, **arguments) -> dict:
        return await self.answer(self.call_soon(name, **arguments))

    def call_soon(self, tool: str, token: int | None = None, **arguments) -> int:
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        return self.ask("tools/call", {"name": tool, "arguments": arguments} | meta)

    async def initialize(self, *encodings: str, **transport) -> dict:
        """Performs the handshake and returns the transport parameters of the server."""
        offered = {"type": "mcp-flow", "version": "0.1", "encodings": list(encodings)}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        params["clientInfo"] = {"name": "aioquic", "version": "1"}
        reply = await self.request("initialize", params | {"transport": offered | transport})
        agreed = reply["result"]["transport"]
        self.encoding = agreed["encoding"]
        self.notify("notifications/initialized")
        return agreed

    def open_stream(self, data: bytes, end: bool = True) -> int:
        """Opens a unidirectional stream with these bytes."""
        stream = self.h3.create_webtransport_stream(self._session, is_unidirectional=True)
        self._quic.send_stream_data(stream, data, end_stream=end)
        self.transmit()
        return stream

    def send_datagram(self, data: bytes) -> None:
        self.h3.send_datagram(self._session, data)
        self.transmit()

    def stream_of(self, request: int, tag: int) -> Stream | None:
        return next((s for s in self.streams.values() if s.header == (request, tag)), None)

    async def stream(self, request: int, tag: int) -> Stream:
        """A stream, once it has ended or was reset."""
        def is_over():
            stream = self.stream_of(request, tag)
            return stream and (stream.ended or stream.reset is not None)

        await self.until(is_over)
        return self.stream_of(request, tag)

    async def until(self, condition) -> None:
        """Waits for a condition; fails if the session ends before."""

        async def wait():
            while True:
                if self.fault:
                    raise self.fault
                if condition():
                    return
                assert not self.ended, f"the session ended: {self.closing}"
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), LIMIT)

    async def until_closed(self) -> None:
        """Waits until the server has closed the session."""
        await self.until(lambda: self.closing is not None or self.ended)

    # Events from the server.

    def quic_event_received(self, event) -> None:
        try:
            self._take(event)
        except AssertionError as fault:
            self.fault = self.fault or fault
        self._changed.set()

    def _take(self, event) -> None:
        match event:
            case ConnectionTerminated():
                self.ended = True
            case StreamReset():
                if event.stream_id == self._control:
                    self.ended = True
                elif event.stream_id in self.streams:
                    self.streams[event.stream_id].reset = event.error_code
            case StopSendingReceived():
                self.stopped[event.stream_id] = event.error_code
            case StreamDataReceived() if event.stream_id == self._control:
                # aioquic takes what comes back on such a stream for HTTP.
                self._received += event.data
                self._frames()
                return
        for event in self.h3.handle_event(event):
            self._take_http(event)

    def _take_http(self, event) -> None:
        match event:
            case HeadersReceived() if event.stream_id == self._session:
                self.status = int(dict(event.headers)[b":status"])
                self.ended |= event.stream_ended
            case DataReceived() if event.stream_id == self._session:
                self._capsules += event.data
                self._capsule()
                self.ended |= event.stream_ended
            case WebTransportStreamDataReceived():
                assert event.session_id == self._session
                assert event.stream_id % 4 == 3, "execution streams are unidirectional"
                stream = self.streams.setdefault(event.stream_id, Stream())
                stream.data += event.data
                stream.ended |= event.stream_ended
            case DatagramReceived():
                assert event.stream_id == self._session
                channel, flags, request = struct.unpack(">BBI", event.data[:6])
                assert channel in (PROGRESS, AUDIO, LOG), channel
                assert flags == 0, flags
                assert len(event.data) - 6 <= 1200, len(event.data)
                self.datagrams.append(Datagram(channel, request, event.data[6:]))

    def _frames(self) -> None:
        while len(self._received) >= 4:
            (length,) = struct.unpack(">I", self._received[:4])
            if len(self._received) < 4 + length:
                return
            body = bytes(self._received[4 : 4 + length])
            del self._received[: 4 + length]
            message = decode(body, self.encoding)
            assert message["jsonrpc"] == "2.0", message
            self.inbox.append(message)

    def _capsule(self) -> None:
        buffer = Buffer(data=bytes(self._capsules))
        try:
            kind, length = buffer.pull_uint_var(), buffer.pull_uint_var()
        except BufferReadError:
            return  # The rest of it is on its way.
        if kind == CLOSE_SESSION and len(self._capsules) - buffer.tell() >= length:
            code = buffer.pull_uint32()
            self.closing = (code, buffer.pull_bytes(length - 4).decode())


def encode(message: object, encoding: str) -> bytes:
    if encoding == "cbor":
        return cbor2.dumps(message)
    return json.dumps(message, separators=(",", ":")).encode()


def decode(body: bytes, encoding: str) -> object:
    """Decodes a message in this encoding, without trailing bytes."""
    try:
        if encoding == "json":
            return json.loads(body.decode())
        rest = io.BytesIO(body)
        # It takes no more at a time than it needs, so that what is left over shows.
        message = cbor2.CBORDecoder(rest, read_size=1).decode()
        assert rest.tell() == len(body), body.hex()
    except (ValueError, cbor2.CBORError) as error:
        raise AssertionError(f"not {encoding}: {error}: {body!r}") from error
    # Both encodings carry the same messages, so only JSON types are allowed.
    assert json.loads(json.dumps(message, allow_nan=False)) == message, message
    return message


@asynccontextmanager
async def connected(url: str, certificate: str, protocols: tuple[str, ...] = ("h3",)):
    """Connects to a server whose certificate has this SHA-256 fingerprint."""
    place = urlsplit(url)
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=list(protocols),
        max_datagram_frame_size=65536,
        # The hash decides below, as in a browser.
        verify_mode=ssl.CERT_NONE,
    )
    async with connect(
        place.hostname, place.port, configuration=configuration, create_protocol=Session
    ) as session:
        presented = session._quic.tls._peer_certificate.public_bytes(Encoding.DER)
        assert hashlib.sha256(presented).hexdigest() == certificate, "another certificate"
        yield session


@asynccontextmanager
async def opened(url: str, certificate: str, origin: str | None = None):
    """A session with an open control stream, before the handshake."""
    place = urlsplit(url)
    async with connected(url, certificate) as session:
        status = await session.open(place.netloc, place.path, origin)
        assert status == 200, status
        yield session
        if session.fault:
            raise session.fault


@asynccontextmanager
async def ready(url: str, certificate: str, *encodings: str):
    """A session after the handshake."""
    async with opened(url, certificate) as session:
        session.agreed = await session.initialize(*encodings)
        yield session
