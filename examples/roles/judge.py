"""A judge over HTTP: `/health` answers once it is up, `/reward?action=3` with the reward of an action."""

import argparse
import random
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse

CHANCES = (0.1, 0.3, 0.2, 0.9, 0.4)


class Judge(BaseHTTPRequestHandler):
    """Rewards each action with its chance."""

    def do_GET(self):
        asked = urlparse(self.path)
        action = int(parse_qs(asked.query).get("action", ["0"])[0])
        answer = str(int(random.random() < CHANCES[action])) if asked.path == "/reward" else "ok"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *words):
        """No line for each of thousands of requests."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    ThreadingHTTPServer(("", parser.parse_args().port), Judge).serve_forever()
