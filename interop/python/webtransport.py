"""Runs one scenario of MCP-Flow 0.1 against a server. Prints nothing on success.

usage: webtransport.py SCENARIO URL CERTIFICATE-HASH DIRECTORY

DIRECTORY is one that the server reads files from, and scenarios make files to be read there.
"""

import asyncio
import json
import struct
import sys
from pathlib import Path
from unittest import mock
from urllib.parse import urlsplit

from aioquic import tls
from session import AUDIO, LIMIT, PROGRESS, connected, decode, encode, opened, ready

# As printed in the specification, which gives another length.
SAMPLE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1.0"},"transport":{"type":"mcp-flow",'
    '"version":"0.1","encodings":["cbor","json"]}}}'
).encode()


async def the_sample_of_the_text(target, _):
    """Section 2.1 and 3: the sample, then everything in the encoding agreed on."""
    async with opened(*target) as session:
        session.write(bytes.fromhex("000000E3") + SAMPLE)
        reply = await session.receive()
        assert reply["id"] == 1 and reply["result"]["protocolVersion"] == "2024-11-05", reply
        transport = reply["result"]["transport"]
        assert set(transport) == {
            "type",
            "version",
            "encoding",
            "maxConcurrentStreams",
            "datagramsSupported",
        }, transport
        assert (transport["type"], transport["version"]) == ("mcp-flow", "0.1")
        assert transport["encoding"] == "cbor" and transport["datagramsSupported"] is True
        assert transport["maxConcurrentStreams"] >= 1
        session.encoding, session.number = "cbor", 1
        session.notify("notifications/initialized")
        assert (await session.request("ping"))["result"] == {}


async def the_wrong_length_of_the_text(target, _):
    """Section 2.1 as printed: 218 bytes are not a message, and the rest is not a length."""
    async with opened(*target) as session:
        session.write(bytes.fromhex("000000DA") + SAMPLE)
        assert refused(await session.answer(None)) == -32700
        await session.until_closed()


async def encodings(target, _):
    """Section 3: the first encoding that the server supports, and JSON if none is named."""
    for offered, chosen in [
        (["cbor", "json"], "cbor"),
        (["json", "cbor"], "json"),
        (["xml", "cbor"], "cbor"),
    ]:
        async with ready(*target, *offered) as session:
            assert session.agreed["encoding"] == chosen, session.agreed
            await adds(session)
    for transport in [{"type": "mcp-flow", "version": "0.1"}, None]:
        async with opened(*target) as session:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}}
            params["clientInfo"] = {"name": "aioquic", "version": "1"}
            params |= {} if transport is None else {"transport": transport}
            reply = await session.request("initialize", params)
            assert reply["result"]["transport"]["encoding"] == "json", reply
            session.notify("notifications/initialized")
            await adds(session)


async def a_handshake_that_fails_first(target, _):
    """Sections 1 and 4.1: a refused handshake, in JSON, may be retried on the same stream."""
    async with opened(*target) as session:
        early = await session.request("tools/list")
        assert refused(early) == -32600 and "data" in early["error"], early
        whole = json.loads(SAMPLE)["params"]
        for transport, code in [
            ({"type": "other", "version": "0.1"}, -32600),
            ({"type": "mcp-flow", "version": "0.1", "encodings": ["xml"]}, -32602),
            ({"type": "mcp-flow", "version": "0.1", "encodings": "cbor"}, -32602),
        ]:
            reply = await session.request("initialize", whole | {"transport": transport})
            assert refused(reply) == code, reply
        session.send({"jsonrpc": "2.0", "id": 9, "method": "initialize", "params": whole}, "cbor")
        assert refused(await session.receive()) == -32003
        await session.initialize("cbor", "json")
        await adds(session)


async def lists_and_calls(target, _):
    """Sections 4.1 and 5, in both encodings."""
    for encoding in ["json", "cbor"]:
        async with ready(*target, encoding) as session:
            names, cursor = [], None
            while True:
                params = {} if cursor is None else {"cursor": cursor}
                page = (await session.request("tools/list", params))["result"]
                names += [tool["name"] for tool in page["tools"]]
                if (cursor := page.get("nextCursor")) is None:
                    break
            assert {"calculator.add", "read_file", "sleep"} <= set(names), names
            await adds(session)
            echo = (await session.call("echo", text="Grüße, 世界 🌍"))["result"]
            assert echo["content"] == [{"type": "text", "text": "Grüße, 世界 🌍"}]
            assert (await session.call("fail"))["result"]["isError"] is True
            assert refused(await session.request("nope")) == -32601
            assert refused(await session.request("tools/call", {"name": 7})) == -32602
            session.send({"id": 77})
            assert refused(await session.receive()) == -32600
            session.notify("nope")
            session.frame(b"\xff\x00 neither")
            assert refused(await session.answer(None)) == -32700
            session.frame(b"")
            assert refused(await session.answer(None)) == -32700
            await adds(session)


async def frames_in_pieces(target, _):
    """Section 2.1: frames byte by byte, and several at once."""
    async with ready(*target, "cbor", "json") as session:
        ping = encode({"jsonrpc": "2.0", "id": 1000, "method": "ping"}, "cbor")
        for byte in struct.pack(">I", len(ping)) + ping:
            session.write(bytes([byte]))
            await session.ping()
        assert (await session.receive())["id"] == 1000
        pings = b""
        for id in [1001, "one", 1002]:
            body = encode({"jsonrpc": "2.0", "id": id, "method": "ping"}, "cbor")
            pings += struct.pack(">I", len(body)) + body
        session.write(pings)
        assert [(await session.receive())["id"] for _ in range(3)] == [1001, "one", 1002]


async def three_parallel_streams(target, directory):
    """Section 5: each result names its stream, nothing is mixed, and the control stream is free."""
    files = [text_file(directory, size) for size in (2_000_000, 3_000_000, 4_000_000)]
    for encoding in ["json", "cbor"]:
        async with ready(*target, encoding) as session:
            ids = [session.call_soon("read_file", path=file.name) for file in files]
            assert (await session.request("ping"))["result"] == {}
            for id, file in zip(ids, files, strict=True):
                [item] = (await session.answer(id))["result"]["content"]
                assert item["type"] == "ref/stream", item
                assert item["mimeType"] == "text/plain", item
                stream = await session.stream(id, item["streamTag"])
                assert stream.ended and stream.reset is None
                assert stream.payload == file.read_bytes(), file
            assert len(session.streams) == 3, [s.header for s in session.streams.values()]


async def an_id_no_header_can_carry(target, directory):
    """Ids have 32 bits in headers and any size in messages: such a call is answered without a stream."""
    file = text_file(directory, 2_000_000)
    async with ready(*target, "cbor", "json") as session:
        for id in ["a string", 0, -1, 2**32]:
            params = {"name": "read_file", "arguments": {"path": file.name}}
            session.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            reply = await session.answer(id)
            if "result" in reply:
                [item] = reply["result"]["content"]
                assert item == {"type": "text", "text": file.read_text()}, item["type"]
            else:
                assert reply["error"]["data"]["name"] == "STREAM_ID_NOT_REPRESENTABLE", reply
        assert not session.streams
        await adds(session)


async def datagrams(target, _):
    """Section 2.3: progress in the encoding agreed on, its end reliably; others are dropped."""
    for encoding in ["json", "cbor"]:
        async with ready(*target, encoding) as session:
            for strange in ["00 0000000000", "7f 0000000000", "01 01 00000001", "0100000000", ""]:
                session.send_datagram(bytes.fromhex(strange))
            id = session.call_soon("sleep", token=7, ms=400)
            reply = await session.answer(id)
            assert reply["result"]["content"][0]["text"] == "slept 400 ms", reply
            assert all((d.channel, d.request) == (PROGRESS, id) for d in session.datagrams)
            seen = [decode(d.payload, encoding) for d in session.datagrams]
            assert len(seen) >= 3, seen
            last = [m["params"] for m in session.notices if m["method"] == "notifications/progress"]
            assert len(last) == 1 and last[0]["progress"] == 350, last
            for params in seen + last:
                assert params["progressToken"] == 7 and params["total"] == 400, params
            values = [params["progress"] for params in seen]
            assert values == sorted(set(values)), values
            # Without a token nothing is sent.
            session.datagrams.clear()
            await session.call("sleep", ms=120)
            assert not session.datagrams


async def audio(target, _):
    """Section 2.3, channel 2: numbered chunks."""
    async with ready(*target, "cbor", "json") as session:
        id = session.call_soon("audio_tone", duration=200)
        assert "result" in await session.answer(id)
        assert any(notice["params"]["requestId"] == id for notice in session.notices)
        chunks = [d for d in session.datagrams if d.channel == AUDIO]
        assert chunks and all(chunk.request == id for chunk in chunks)
        numbers = [struct.unpack(">II", chunk.payload[:8]) for chunk in chunks]
        assert numbers == sorted(set(numbers)), numbers
        # Pieces of 20 ms, numbered from 0.
        assert all(time == 20 * number for number, time in numbers), numbers


async def cancelling(target, directory):
    """Section 6: the work stops, and so do its datagrams and its streams."""
    async with ready(*target, "cbor", "json") as session:
        id = session.call_soon("sleep", token=1, ms=60_000)
        await session.until(lambda: session.datagrams)
        session.notify("$/cancel", requestId=id, reason="User pressed Escape")
        reply = await session.answer(id)
        assert refused(reply) == -32000, reply
        assert reply["error"]["message"] == "Cancelled", reply
        assert reply["error"]["data"]["name"] == "CANCELLED", reply
        assert reply["error"]["data"]["requestId"] == id, reply
        assert reply["error"]["data"]["reason"] == "User pressed Escape", reply
        session.datagrams.clear()
        await session.call("sleep", ms=200)
        assert not session.datagrams
        for unknown in [id, 4711, "no such call"]:
            session.notify("$/cancel", requestId=unknown)
        await adds(session)

        id, tag = await endless(session, directory)
        session.notify("$/cancel", requestId=id)
        stream = await session.stream(id, tag)
        assert stream.reset is not None and not stream.ended
        await adds(session)


async def refusing_a_stream(target, directory):
    """STOP_SENDING ends only that stream."""
    async with ready(*target, "cbor", "json") as session:
        id, tag = await endless(session, directory)
        number = next(n for n, s in session.streams.items() if s.header == (id, tag))
        session._quic.stop_stream(number, 7)
        session.transmit()
        assert (await session.stream(id, tag)).reset is not None
        await adds(session)


async def shutting_down(target, directory):
    """Section 7: calls in flight complete, new ones are refused, the session is closed."""
    async with ready(*target, "cbor", "json") as session:
        file = text_file(directory, 8_000_000)
        id = session.call_soon("read_file", path=file.name)
        [item] = (await session.answer(id))["result"]["content"]
        session.notify("$/shutdown")
        late = session.call_soon("calculator.add", a=2, b=3)
        reply = await session.answer(late)
        assert refused(reply) == -32600 and reply["error"]["data"]["name"] == "SHUTTING_DOWN", reply
        stream = await session.stream(id, item["streamTag"])
        assert stream.ended and stream.payload == file.read_bytes()
        await session.until_closed()
        assert session.closing in (None, (0, session.closing[1])), session.closing


async def injected_streams(target, _):
    """Sections 4.2 and 4.3: an unsolicited stream is stopped and reported, without other effects."""
    async with ready(*target, "cbor", "json") as session:
        number = session.open_stream(struct.pack(">II", 999, 5) + b"x" * 5000, end=False)
        error = await session.notice("$/streamError")
        assert (error["requestId"], error["streamTag"]) == (999, 5), error
        assert error["error"].startswith("STREAM_INJECTION") and error["code"] == -32002, error
        await session.until(lambda: number in session.stopped)
        session.open_stream(b"\x00\x00\x00\x2a\x00")
        assert isinstance((await session.notice("$/streamError"))["error"], str)
        await adds(session)


async def the_wrong_encoding(target, _):
    """Section 4.2: refused in the negotiated encoding, and the session continues."""
    for agreed, other in [("cbor", "json"), ("json", "cbor")]:
        async with ready(*target, agreed) as session:
            session.send({"jsonrpc": "2.0", "id": 50, "method": "ping"}, other)
            reply = await session.receive()
            assert refused(reply) == -32003, reply
            await adds(session)


async def strange_cbor(target, _):
    """CBOR without a JSON equivalent is refused or decoded, without other effects."""
    async with ready(*target, "cbor") as session:
        def call(text):
            params = {"name": "echo", "arguments": {"text": "@"}}
            message = {"jsonrpc": "2.0", "id": 60, "method": "tools/call", "params": params}
            return encode(message, "cbor").replace(b"\x61@", text)

        for body in [
            call(b"\xf9\x7e\x00"),  # not a number
            call(b"\xc0\x61@"),  # a tag
            call(b"\xf7"),  # undefined
            call(b"\x41@"),  # bytes
            call(b"\x7f\x61@\xff"),  # text in pieces
            b"\x9b" + b"\xff" * 8,  # an array longer than memory
            b"\x81" * 100_000,  # nested deeper than anything
            b"\xbf",  # a map without an end
        ]:
            session.frame(body)
            reply = await session.receive()
            assert ("result" in reply) != ("error" in reply), reply
        await adds(session)


async def a_length_of_four_gigabytes(target, _):
    """Section 9: refused as soon as it is announced, with the limit, and then closed."""
    for moment in ["before the handshake", "after it"]:
        async with opened(*target) as session:
            if moment == "after it":
                await session.initialize("cbor", "json")
            session.write(b"\xff\xff\xff\xff{")
            reply = await session.answer(None)
            assert reply["error"]["data"]["name"] == "PAYLOAD_TOO_LARGE", reply
            assert reply["error"]["data"]["limit"] == 16 * 1024 * 1024, reply
            await session.until_closed()


async def a_stream_that_ends_inside_a_frame(target, _):
    """A truncated frame closes the session, and no other one."""
    async with ready(*target, "cbor", "json") as other:
        async with ready(*target, "cbor", "json") as session:
            session._quic.send_stream_data(session._control, b"\x00\x00\x00\x09{", end_stream=True)
            session.transmit()
            await session.until_closed()
        await adds(other)


async def doors(target, _):
    """Sections 8 and 9: another path, a foreign origin, another protocol."""
    url, certificate = target
    place = urlsplit(url)
    own = f"http://{place.netloc}"
    for path, origin, status in [
        (place.path, None, 200),
        (place.path, own, 200),
        (place.path, "https://elsewhere.example", 403),
        ("/elsewhere", None, 404),
        ("/", None, 404),
    ]:
        async with connected(url, certificate) as session:
            got = await session.open(place.netloc, path, origin)
            assert got == status, (path, origin, got)
    try:
        async with asyncio.timeout(LIMIT), connected(url, certificate, ("hq-interop",)):
            raise AssertionError("a connection without HTTP/3")
    except ConnectionError:
        pass


async def an_older_tls(target, _):
    """Section 9: a client with TLS 1.2 only is refused; the same client with TLS 1.3 is not."""
    whole = tls.push_client_hello

    def older(buffer, hello):
        hello.supported_versions = [tls.TLS_VERSION_1_2]
        whole(buffer, hello)

    with mock.patch.object(tls, "push_client_hello", older):
        try:
            async with asyncio.timeout(LIMIT), connected(*target):
                raise AssertionError("a connection by TLS 1.2")
        except ConnectionError:
            pass
    async with connected(*target):
        pass


async def adds(session):
    result = (await session.call("calculator.add", a=2, b=3))["result"]
    assert result["content"] == [{"type": "text", "text": "5"}], result


def refused(reply):
    """The code of an error, whose message must be a string."""
    assert isinstance(reply["error"]["message"], str), reply
    return reply["error"]["code"]


def text_file(directory, size):
    """A file of this size without repetition."""
    file = Path(directory, f"{size}.txt")
    file.write_text("".join(f"{at:>9}\n" for at in range(0, size, 10)))
    return file


async def endless(session, directory):
    """Starts a transfer that outlasts any scenario; returns its request id and tag."""
    file = Path(directory, "endless.txt")
    with file.open("wb") as empty:
        empty.truncate(64 * 1024**3)
    id = session.call_soon("read_file", path=file.name)
    [item] = (await session.answer(id))["result"]["content"]
    await session.until(lambda: session.stream_of(id, item["streamTag"]))
    return id, item["streamTag"]


SCENARIOS = [
    the_sample_of_the_text,
    the_wrong_length_of_the_text,
    encodings,
    a_handshake_that_fails_first,
    lists_and_calls,
    frames_in_pieces,
    three_parallel_streams,
    an_id_no_header_can_carry,
    datagrams,
    audio,
    cancelling,
    refusing_a_stream,
    shutting_down,
    injected_streams,
    the_wrong_encoding,
    strange_cbor,
    a_length_of_four_gigabytes,
    a_stream_that_ends_inside_a_frame,
    doors,
    an_older_tls,
]

if __name__ == "__main__":
    name, url, certificate, directory = sys.argv[1:]
    scenario = {scenario.__name__: scenario for scenario in SCENARIOS}[name]
    asyncio.run(scenario((url, certificate), directory))
