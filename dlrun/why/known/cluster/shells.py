"""What shells write about the script that they run: line ends of Windows, words of another shell, syntax, programs to start."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_BASH = "https://git.savannah.gnu.org/cgit/bash.git/tree/"

# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="shells about a script",
        source=_BASH,
        forms=(
            Form(
                cause="interpreter-missing",
                texts=(),
                regex=r"\$'[^']*\\r'|\\r'?: (?:command )?not found|: invalid option name\s*$|invalid option\W+\\r|/bin/\w+\\r\b",
                source=_BASH + "print_cmd.c",
                means="the script has the line ends of Windows (CRLF): the shell takes the carriage return as a part of each line",
                check="`file SCRIPT` shows `with CRLF line terminators`",
                next="`sed -i 's/\\r$//' SCRIPT`, also for files that it reads with `source`",
            ),
            Form(
                cause="interpreter-missing",
                texts=(),
                regex=r"(?:: (?:line )?\d+: (?:\S+: )?|^\S+\[\d+\]: )((?:source|\[\[|declare|typeset|shopt|pushd|popd|function|mapfile|readarray|let|\(\(): not found|Bad substitution|Syntax error: .*(?:unexpected|redirection|Bad).*|arithmetic expression: expecting .*)$|\b(set: Illegal option -o pipefail|set: -o: invalid option)$",
                source="https://git.kernel.org/pub/scm/utils/dash/dash.git/tree/src/error.c",
                means="the script is written for bash, and another shell (`sh`, dash) runs it: {1}",
                check="`head -1 SCRIPT`, and how it is started (`sh SCRIPT` ignores its first line)",
                next="start it with `bash SCRIPT`, with `#!/bin/bash` as its first line",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=r"(?:^|[:\s])line \d+: ((?:`\S+ )?(?:syntax error\b.*|unexpected EOF while looking for matching .*|unexpected argument .* to conditional .*|conditional binary operator expected|\S+: bad substitution|.*: ambiguous redirect|\[+: .*(?:operator expected|too many arguments|missing `\]'|integer (?:expression )?expected)|.*: (?:bad array subscript|not a valid identifier|invalid arithmetic operator.*|syntax error.*|value too great for base.*|division by 0.*|numeric argument required|must use subscript when assigning associative array|cannot assign .*|readonly variable)|warning: here-document at line .*delimited by end-of-file.*))$",
                source=_BASH + "error.c",
                means="the shell does not understand a line of the script: {1}",
                check="`bash -n SCRIPT`, and whether each variable of that line has a value",
                next='correct the line: quote variables (`"$NAME"`), close quotes, `if` and `do`; `bash -n SCRIPT` checks it without a job',
                passing=True,
            ),
            Form(
                cause="file-system",
                texts=(),
                regex=r"can't open file '[^']+': (\[Errno (?:5|70|107|108|116)\] .*)",
                source="https://man7.org/linux/man-pages/man3/errno.3.html",
                passing=True,
            ),
            Form(
                cause="configuration",
                texts=("Argument list too long",),
                source="https://man7.org/linux/man-pages/man2/execve.2.html",
                means="the command's arguments, or the variables of the job, are longer than the system takes",
                check="`env | wc -c` in the job, and what a pattern such as `*.tar` in the command expands to",
                next="give the program a file with the names, or a pattern in quotes; `unset` large variables (exported functions too)",
            ),
            Form(
                cause="file-missing",
                texts=(
                    "getcwd: cannot access parent directories",
                    "job-working-directory: error retrieving current directory",
                    "getcwd() failed: No such file or directory",
                    "FileNotFoundError: [Errno 2] No such file or directory: os.getcwd()",
                ),
                source=_BASH + "builtins/common.c",
                means="the directory in which the job runs was removed or renamed, or is not on this node",
                next="keep the spec's `directory` until the job has ended, on a file system that all nodes see",
                passing=True,
            ),
            Form(
                cause="command-missing",
                texts=(),
                regex=r"(?:failed to run command|failed to execute|execution of|cannot run|cannot exec|unable to exec(?:ute)?|could not exec(?:ute)?) [`'\"\u2018]?([^`'\"\u2019:\s]+)[`'\"\u2019]?: (?:No such file|Permission denied|Exec format|not found)|line \d+: (\S+): (?:Is a directory|is a directory)$",
                source="https://www.gnu.org/software/coreutils/manual/html_node/Exit-status.html",
                passing=True,
            ),
            Form(
                cause="permission",
                texts=(
                    "sudo: a terminal is required to read the password",
                    "sudo: a password is required",
                    "is not in the sudoers file",
                    "sudo: effective uid is not 0",
                    'sudo: The "no new privileges" flag is set',
                ),
                source="https://www.sudo.ws/docs/man/sudo.man/",
                means="a command of the job asks for the rights of root (`sudo`), which jobs do not have",
                next="install what it needs beforehand, in an environment or an image of your own, and take `sudo` out of the command",
                passing=True,
            ),
        ),
    ),
)
