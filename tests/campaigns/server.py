"""The files of a directory at a web server on the loopback, and a client of the same server in the words of s5cmd.

server.py serve DIRECTORY      writes its port to stdout; while the file DIRECTORY.breaks has a number above 0, an answer
                               breaks off half-way, and the number becomes one less
server.py ls --etag s3://NAME/*       as s5cmd would, from the server of $S3_ENDPOINT_URL, whose only bucket has any name
server.py --log error sync s3://NAME/* TO/
server.py --log error run             lines `cp --raw s3://NAME/source/KEY FILE` from stdin
server.py --log error cat --raw s3://NAME/source/KEY     to stdout, what arrives of it also if it breaks off
server.py presign --expire 1h s3://NAME/source/KEY
"""

import contextlib
import hashlib
import http.client
import http.server
import os
import shlex
import sys
import urllib.request


class Files(http.server.BaseHTTPRequestHandler):
    """Files by path, whole or from a byte on, with the hash of their content as ETag; `/?list` lists them."""

    root = ""

    def do_HEAD(self):
        """The headers alone."""
        self._answer(body=False)

    def do_GET(self):
        """The content."""
        self._answer(body=True)

    def _answer(self, body):
        if self.path == "/?list":
            self._send(200, self._listing().encode(), 0, {}, body)
            return
        try:
            with open(self.root + self.path.partition("?")[0], "rb") as file:
                content, changed = file.read(), os.fstat(file.fileno()).st_mtime
        except OSError:
            self.send_error(404)
            return
        state = f'"{hashlib.md5(content).hexdigest()}"'
        headers, first = {"ETag": state, "Last-Modified": self.date_time_string(int(changed))}, 0
        if self.headers.get("If-Match", state) != state:
            self.send_error(412)
            return
        if self.headers.get("Range") and self.headers.get("If-Range", state) == state:
            first = int(self.headers["Range"].partition("=")[2].rstrip("-"))
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        self._send(206 if first else 200, content, first, headers, body)

    def _listing(self):
        found = []
        for above, _, names in os.walk(self.root):
            for path in (os.path.join(above, name) for name in names):
                if not os.path.islink(path):
                    status = os.lstat(
                        path
                    )  # an object's time is that of its upload, whatever time the file has
                    with open(path, "rb") as file:
                        etag = hashlib.md5(file.read()).hexdigest()
                    found.append(
                        f"{status.st_ctime_ns} {etag} {status.st_size} {os.path.relpath(path, self.root)}\n"
                    )
        return "".join(sorted(found))

    def _send(self, status, content, first, headers, body):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content) - first)}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            part = content[first:]
            with contextlib.suppress(OSError):  # who asked was killed
                self.wfile.write(part[: len(part) // 2] if self._breaks() else part)

    def _breaks(self):
        with contextlib.suppress(OSError, ValueError), open(self.root + ".breaks", "r+") as file:
            left = int(file.read())
            file.seek(0)
            file.truncate()
            file.write(str(max(0, left - 1)))
            return left > 0
        return False

    def log_message(self, *words):
        """Nothing."""


def get(path):
    """The content at a path; SystemExit if it cannot be had as a whole."""
    try:
        with urllib.request.urlopen(os.environ["S3_ENDPOINT_URL"] + path) as answer:
            return answer.read()
    except Exception as fault:
        raise SystemExit(f"ERROR {path}: {fault}") from None


def listed():
    """Time, ETag, size and key of each object."""
    return [line.split(" ", 3) for line in get("/?list").decode().splitlines()]


def sync(to):
    """Fetch what is not there with its size and time; each file appears whole."""
    for time, _, size, key in listed():
        path = os.path.join(to, key)
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if (str(status.st_mtime_ns), str(status.st_size)) == (time, size):
                continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = get(f"/{key}")
        with open(path, "wb") as file:  # in place, as clients do
            file.write(content)
        os.utime(path, ns=(int(time), int(time)))


def fetch(lines):
    """Fetch what the lines name, as `run` of s5cmd does, in place."""
    for line in lines:
        _, _, url, path = shlex.split(line)
        content = get("/" + url.split("/", 4)[4])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)


def cat(path):
    """Write the content at a path as it arrives."""
    with urllib.request.urlopen(os.environ["S3_ENDPOINT_URL"] + path) as answer:
        try:
            for piece in iter(lambda: answer.read(20_000), b""):
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
            left = answer.length
        except http.client.IncompleteRead as fault:
            left = fault.expected
            sys.stdout.buffer.write(fault.partial)
            sys.stdout.buffer.flush()
    if left:
        raise SystemExit(f"ERROR {path}: connection lost")


def main(words):
    """Serve, list or fetch."""
    if words[0] == "serve":
        Files.root = words[1]
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
            sys.stdout.write(f"{server.server_port}\n")
            sys.stdout.flush()
            server.serve_forever()
    elif words[0] == "ls":
        for time, etag, size, key in listed():
            sys.stdout.write(f"{int(time) // 10**9} {int(time) % 10**9} {etag} {size} {key}\n")
    elif words[0] == "presign":
        sys.stdout.write(os.environ["S3_ENDPOINT_URL"] + "/" + words[-1].split("/", 4)[4] + "?signature=1\n")
    elif "cat" in words:
        cat("/" + words[-1].split("/", 4)[4])
    elif words[-1] == "run":
        fetch(sys.stdin)
    else:
        sync(words[-1])


if __name__ == "__main__":
    main(sys.argv[1:])
