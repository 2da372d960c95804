"""An OpenTelemetry collector that decodes with the official definitions and prints what it gets.

Listens for OTLP over HTTP and gRPC on free ports. The first line names them; each further line is one
request, as JSON.
"""

import base64
import gzip
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

SIGNALS = {
    "traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse, "resourceSpans", "scopeSpans", "spans"),
    "metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse, "resourceMetrics", "scopeMetrics", "metrics"),
    "logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse, "resourceLogs", "scopeLogs", "logRecords"),
}

writing = threading.Lock()


def say(line):
    with writing:
        print(json.dumps(line), flush=True)


def plain(value):
    """Attributes as an object, ids in hexadecimal digits."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, member in value.items():
        if name == "attributes":
            made[name] = {one["key"]: next(iter(one["value"].values()), None) for one in member}
        elif name in ("traceId", "spanId", "parentSpanId"):
            made[name] = base64.b64decode(member).hex()
        else:
            made[name] = plain(member)
    return made


def report(protocol, signal, message, headers):
    known = message.ByteSize()
    message.DiscardUnknownFields()
    assert message.ByteSize() == known, "a member that OTLP does not have"
    _, _, of_resource, of_scope, records = SIGNALS[signal]
    for resource in plain(MessageToDict(message)).get(of_resource, []):
        for scope in resource.get(of_scope, []):
            say({
                "protocol": protocol,
                "signal": signal,
                "headers": headers,
                "resource": resource["resource"]["attributes"],
                "scope": scope["scope"],
                "records": scope.get(records, []),
            })


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        signal = self.path.rsplit("/", 1)[-1]
        assert self.headers["content-type"] == "application/x-protobuf", self.headers
        request, response, *_ = SIGNALS[signal]
        message = request()
        message.ParseFromString(body)
        report("http", signal, message, {name.lower(): value for name, value in self.headers.items()})
        answer = response().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def servicer(base, signal):
    def export(_, request, context):
        report("grpc", signal, request, dict(context.invocation_metadata()))
        return SIGNALS[signal][1]()

    return type("Servicer", (base,), {"Export": export})()


def main():
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = grpc.server(ThreadPoolExecutor(4))
    traces_grpc.add_TraceServiceServicer_to_server(servicer(traces_grpc.TraceServiceServicer, "traces"), server)
    metrics_grpc.add_MetricsServiceServicer_to_server(servicer(metrics_grpc.MetricsServiceServicer, "metrics"), server)
    logs_grpc.add_LogsServiceServicer_to_server(servicer(logs_grpc.LogsServiceServicer, "logs"), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    threading.Thread(target=http.serve_forever, daemon=True).start()
    say({"http": f"http://127.0.0.1:{http.server_port}", "grpc": f"http://127.0.0.1:{port}"})
    # Ends with the test that started it.
    sys.stdin.read()


main()
