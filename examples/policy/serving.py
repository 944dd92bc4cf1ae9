"""What the servers have in common: `/health` answers at once, what is posted elsewhere is handed to a function."""

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(answer):
    """Listen on --port of all addresses; `answer(path, data)` returns the bytes for a POST."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply(b"ok")

        def do_POST(self):
            self.reply(answer(self.path, self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, data):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words):
            """No line for each of thousands of requests."""

    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    ThreadingHTTPServer(("", parser.parse_args().port), Handler).serve_forever()
