"""Errors of command-line programs that copy files by their codes: curl, wget, rsync, scp."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_CURL = "https://curl.se/libcurl/c/libcurl-errors.html"
_RSYNC = "https://download.samba.org/pub/rsync/rsync.1#EXIT_VALUES"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="curl and wget",
        source=_CURL,
        forms=(
            Form(
                cause="configuration",
                texts=(),
                regex=r"\bcurl: \((?:5[3489]|66)\) (.*)",
                source=_CURL,
                means="curl cannot use the client certificate, its key, the cipher or the engine that it was given: {1}",
                check="that the files exist and can be read, and the form that they have (`--cert-type`)",
                next="correct `--cert`, `--key`, `--pass`, `--ciphers` or `--engine` in the command, or in `~/.curlrc`",
                passing=True,
            ),
            Form(
                cause="no-access",
                texts=(),
                regex=r"\bcurl: \((?:51|60|77|8[0-3]|9[01])\) (.*)|cannot verify \S+'s certificate|curl: \(35\) .*(?:certificate|self[- ]signed|unknown CA).*",
                source=_CURL,
                means="the certificate of a server could not be verified: the node lacks the authority's certificate, or a proxy is between",
                next="`environment.variables: {SSL_CERT_FILE: …, CURL_CA_BUNDLE: …}` with the centre's certificates",
                passing=True,
            ),
            Form(
                cause="no-access",
                texts=(),
                regex=r"\bcurl: \((?:9|67|79|94)\) (.*)|\bcurl: \(22\) .*\b(40[13])\b|^(?:\S{1,40} ){0,2}ERROR (40[137]): ",
                source=_CURL,
                passing=True,
            ),
            Form(
                cause="hub-limit",
                texts=(),
                regex=r"\bcurl: \(22\) .*\b(429)\b|^(?:\S{1,40} ){0,2}ERROR (429): ",
                source=_CURL,
                passing=True,
            ),
            Form(
                cause="not-found",
                texts=(),
                regex=r"\bcurl: \((?:19|36|78)\) (.*)|\bcurl: \(22\) .*\b(404|410)\b|^(?:\S{1,40} ){0,2}ERROR (404|410): ",
                source=_CURL,
                passing=True,
            ),
            Form(
                cause="no-network",
                texts=(),
                regex=r"\bcurl: \((?:[5-8]|1[268]|28|35|45|5[2-6]|8[89]|9[25-7])\) (.*)|\bcurl: \(22\) .*\b(5\d\d)\b|^(?:\S{1,40} ){0,2}ERROR (5\d\d): |^Unable to establish SSL connection\.$|^Connecting to \S+ .*failed: (.+)|^Giving up\.$",
                source=_CURL,
                means="a download did not begin, or broke off: the node does not reach the server, or the server failed",
                passing=True,
            ),
            Form(
                cause="permission",
                texts=(),
                regex=r"\bcurl: \((?:23|70)\) (.*)|Cannot write to [^ ]+ \((.+)\)",
                source=_CURL,
                means="a download could not be written: its directory is missing, may not be written, or is full",
                check="`ls -ld` and `df -h` of the directory on a compute node; with `curl -o` it must be there (`--create-dirs`)",
                next="write to a directory of the job's user that is there and has room, and have no program (`| head`) end the pipe before",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"\bcurl: \(([1-4]|26|33|37|43|48)\) .*|\bcurl: option \S+: (.*)",
                source=_CURL,
                means="curl was given an address or an option that it rejects, or a file that it cannot read",
                next="correct the command: quotes around the address, its protocol, the name of the file",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="rsync and scp",
        source=_RSYNC,
        forms=(
            Form(
                cause="ssh-connection",
                texts=(
                    "rsync: connection unexpectedly closed {1}",
                    "scp: Connection closed",
                    "rsync: failed to connect to {1}:",
                    "rsync: did not see server greeting",
                ),
                regex=r"^(?:scp: )?lost connection$|rsync error: .*\(code (?:5|10|12|30|35|255)\)",
                source=_RSYNC,
                means="a copy between hosts broke off: the other host could not be logged in to, has no `rsync`, printed something at its start, or closed the connection",
                check="`ssh HOST true` from the node: it must print nothing and ask nothing",
                next="see the line above it; let `ssh` between the hosts work without a prompt, and copy what is needed before the job where nodes may not log in elsewhere",
                consequence=True,
            ),
            Form(
                cause="file-missing",
                texts=(),
                regex=r"rsync error: .*\(code 3\)|rsync: (?:\[sender\] )?(?:change_dir|link_stat) \"([^\"]+)\" failed: No such file",
                source=_RSYNC,
                passing=True,
            ),
            Form(
                cause="file-system",
                texts=(),
                regex=r"rsync error: (.*)\(code (?:11|23|24)\)",
                source=_RSYNC,
                means="a copy is not complete: the lines above name the files",
                check="`df -h` and `ls -ld` of the target",
                next="see the line above it; copy again, when nothing writes to the source",
                consequence=True,
            ),
            Form(
                cause="command-missing",
                texts=(),
                regex=r"rsync error: .*\(code 127\)",
                source=_RSYNC,
                means="`rsync` (or `ssh`) does not exist on one of the two hosts",
                next="install it there, or copy with `scp` or `cp`",
                consequence=True,
            ),
        ),
    ),
)
