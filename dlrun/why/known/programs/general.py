"""How programs mark their errors, and the way out of kinds of errors that are not of one library."""

from __future__ import annotations

import re

# ruff: noqa: E501 - a table
LEVELS = tuple(
    map(
        re.compile,
        (
            r"(?:^|[\s\[(|<:=\"-])(?:FATAL|CRITICAL|Fatal|CRIT|EMERG|PANIC|[Pp]anic|fatal|critical)(?: error)?(?=[\]:|\s,)>\"-])|\b(?:FATA|PANI)\[\d+\]|panicked at|\bAssertion\b.* failed|[Aa]ssertion failed|terminate called (?:after|without)|Check failed:|^\W*F\d{4} \d\d:\d\d|forrtl: severe|^\s*(?:ERROR )?STOP\s+[A-Za-z]|(?:[Rr]untime|RUNTIME) (?:error|ERROR):",
            r"(?:^|[\s\[(|<:=\"-])(?:ERROR|SEVERE|ERR|[Ee]rror)(?: in [^:]{1,80})?(?=[\]:|,)>\"]|\s*[-|] |\s{1,3}\S)|^\W*(?:\[[^\]\s]{1,40}\]:?\s*)?\[?E\s?\d{4}[ T]\d\d:\d\d|\*\*\*.* Error \d|^Exception in thread|^ERR!|\bERRO\[\d+\]|^[eE]rror$",
            r"^\W*(?:\[[^\]\s]{1,40}\]:?\s*|[\w./-]+: )?[A-Z\w'\"`./-]+(?: \S+){0,40}? (?:(?:can ?not|could not|can't|must|was not|were not|is not|are not|does not|did not|do not|not) \S+|missing|invalid|unsupported|unknown|exceeds?|failed|refus\w+|abort\w*|exiting|too (?:large|small|many|few|long))\b|^(?:[Cc]annot|[Cc]ould not|[Cc]an't|[Uu]nable|[Ff]ailed|[Ii]nvalid|[Mm]issing|[Uu]nknown|[Uu]nsupported|[Nn]o) \S+",
        ),
    )
)
"""Regular expressions of lines that a program marks as its error, the gravest first; the last one: by its words alone."""

_CODE = "correct the code there, and try it with a small input before it is submitted"
_ARGUMENTS = "correct the command's arguments (`dlrun plan --script` shows them as the program gets them) or its configuration file"
WAYS: tuple[tuple[str, str], ...] = (
    (
        r"(?i)(?:gpus?|world[_ ]size|[pmtd]p_size|ranks?)\b.*\b(?:whole number|divisible|multiple of)",
        "compare the number of ranks (`dlrun plan` shows nodes and ranks) with the program's parallel sizes, whose product must divide it",
    ),
    (
        r"\[\[(?:\{\{)?node \S*(?:Nccl|Collective|Horovod)",
        "an operation between the ranks failed: `environment.variables: {NCCL_DEBUG: INFO}` shows NCCL's own message",
    ),
    (
        r"num_samples=0|num_samples should be|returned 0 length|(?i:empty training data)|(?i:\bempty (?:data ?set|list|sequence|batch)|\b0 (?:samples|images|files|examples)\b)",
        "the data set is empty for this rank: check its path and what filters it, and that it has more samples than there are ranks",
    ),
    (
        r"Tried to step \d+ times",
        "the schedule of learning rates is shorter than the training: give it the steps of the whole run, also after a restart",
    ),
    (
        r"(?i)batch_size \(\d+\) to match|incompatible with the layer|expected axis|more than 1 value per channel",
        "the sizes of the data are not those that the model expects: print their shapes before that line; a last batch of one sample needs `drop_last=True`",
    ),
    (
        r"(?i)\bat most \d|\bonly supports\b|must be (?:less|greater|smaller|larger|at least|no more)|to be in the range",
        "change the value that it names so that it is within that limit (data: check and clip it), or use another implementation",
    ),
    (
        r"(?i)\brequires? .*(?:>=|or (?:later|newer|higher)|at least|version|\d\.\d|hopper|ampere|compute capability)|\btoo old\b|only supported (?:on|with|by|in)",
        "use the version or the kind of GPU that it names (a newer build or container, `resources.constraint`), or turn that feature off",
    ),
    (
        r"(?i)domain decomposition|for \d+ ranks|\bnumber of (?:processors|processes|ranks|tasks|cores|MPI)\b",
        "compare the number of ranks that the program's input is made for with that of the job (`dlrun plan` shows nodes and ranks)",
    ),
    (
        r"(?i)\bunknown (?:\w+ ){0,2}(?:style|command|keyword|variable|directive)\b",
        "correct the name in the program's input, or use a build of the program that has it",
    ),
    (
        r"modified by an inplace operation",
        "find the operation that changes it (`torch.autograd.set_detect_anomaly(True)`); with DistributedDataParallel call forward once for each backward, or set `broadcast_buffers=False`",
    ),
    (
        r"backward through the graph a second time",
        "detach what is kept between steps (hidden states, losses), or call backward once; `retain_graph=True` where a second time is meant",
    ),
    (
        r"(?:size of tensor|[Ss]hape|[Ss]izes?)\b.*torch/optim/",
        "the state of the optimizer is of another number of ranks or another model: resume with the number of ranks that wrote the checkpoint, or from one with the complete state",
    ),
    (
        r"(?i)(?:ckpt|(?<!utils[./])checkpoint(?!error)|state_?dict|load_state|pretrained_weights)",
        "check the checkpoint's directory and tag on each node, and load it with the library, version and parallel sizes that wrote it, or convert it",
    ),
    (
        r"Given groups=|\bto have \d+ channels",
        "give the images the number of channels that the model's first layer takes (such as `.convert('RGB')`), or give the model theirs",
    ),
    (
        r"expected sequence of length|inhomogeneous|different lengths|truncation|padding",
        "the examples of a batch have different lengths: pad and cut them (`padding=True, truncation=True`), labels too",
    ),
    (
        r"is not in \[0, \d+\)|[Tt]arget \d+ is out of bounds|index out of range in self|(?i:vocab\w*[ _]size|vocabulary has\b)",
        "a token's or label's number is beyond the model's size: use the vocabulary or number of classes with which the data were made",
    ),
    (
        r"[Oo]ne rank .*another rank|on (?:some|other) ranks|across ranks|rank \d+ .*rank \d+",
        "the ranks differ: give each the same program, environment, data and kind of device on all nodes",
    ),
    (
        r"(?i)already (?:set|registered|logged|initialized|exists? with|been called|has a value|started)",
        "do it once in a run, or under a new name: a run that starts again must not repeat it",
    ),
    (
        r"(?i)(?:failed to|could not|cannot|unable to) (?:compile|build|find (?:a )?compiler)",
        "build it once before the job, with a compiler, in a directory that can be written",
    ),
    (
        r"(?i)\b(?!function not implemented)(?:class|module|function|attribute|operator|backend|model|architecture|model type|layer|optimizer|scheduler)\b[^/]{0,60}(?:does not exist|not (?:found|registered|recognized|supported|implemented|available|currently imported)|unknown)",
        "compare its name with what the installed version of that package has (`pip list`): correct it in the configuration, or install the version that has it",
    ),
    (
        r"shapes? cannot be multiplied|[Ss]ize mismatch|[Ss]hape ?mismatch|The size of tensor|not aligned|could not be? ?broadcast|could not broadcast|must match the size|Sizes of tensors must match|stack expects each tensor|shape '\[.*\]' is invalid|[Ii]ncompatible shapes?|Given groups=|cannot reshape|Dimension out of range|inhomogeneous|shapes? .* (?:do not|don't|does not) match|number of (?:channels|features|classes)",
        "the sizes of two arrays do not go together: print their shapes before that line, and compare the model's sizes with those of the data",
    ),
    (
        r"Expected all tensors to be on the same device|should be the same|expected scalar type|must have the same dtype|Input type .* and weight type",
        "move both to one device and one type: `.to(model.device, model.dtype)`",
    ),
    (
        r"does not require grad|one of the variables needed for gradient|backward through the graph a second time|unused in|leaf Variable",
        "see which parameters are frozen or changed in place before the loss",
    ),
    (
        r"validation errors? for|ValidationError|ConfigError|ConfigurationError|MissingMandatory|[Uu]nknown (?:option|argument|parameter|key|field|config)|unrecognized|[Uu]nexpected key\b|[Ii]nvalid (?:\w+ )?(?:choice|value|option|argument|config\w*)|required (?:argument|option|key|field)|[Mm]issing (?:required )?(?:argument|option|key|field|setting|config)|[Nn]o such option|[Uu]sage:|(?:not|n't) compatible with the|(?:cannot|can't|can not) be (?:used|set|given|specified|combined) (?:together|with)|mutually exclusive|(?:must|needs? to|has to|should) be (?:specified|provided|supplied|passed)|(?:must|need to|have to) (?:specify|provide)",
        _ARGUMENTS,
    ),
    (
        r"JSONDecodeError|Expecting (?:value|property name|',' delimiter)|yaml\.|TOMLDecodeError|could not determine a constructor|while (?:parsing|scanning)",
        "the file is not valid JSON, YAML or TOML: check its syntax at the place that is named, and that it is not empty or cut off",
    ),
    (
        r"UnicodeDecodeError|codec can't decode",
        "the file is not text of that encoding (compressed, binary, or of another one): open it in binary, or name the encoding",
    ),
    (
        r"FileNotFoundError|No such file or directory|[Nn]ot found[:.]? \S*/|(?:[Ff]ile|[Pp]ath|[Dd]irectory|[Ff]older|/\S+) .*does not exist|NotADirectoryError|IsADirectoryError|no (?:files|images|samples|data) (?:found|in|match)|[Ff]ound 0 (?:files|images|samples)",
        "check the path on a compute node; relative paths start at the spec's `directory`",
    ),
    (
        r"FileExistsError|already exists|not empty",
        "give each run its own directory, or the program's option to overwrite or to resume",
    ),
    (
        r"PermissionError|[Pp]ermission denied|Access ?Denied|not permitted|\b403 (?:Client|Forbidden)|Forbidden",
        "check who may read and write it: `ls -ld` of it and of the directories above it; for a server, the token or key of the job",
    ),
    (
        r"\b401 (?:Client|Unauth)|Unauthorized|[Aa]uthentication|[Cc]redentials?\b|(?i:api|access|auth|hf)[ _]?(?i:token|key)(?:\b|(?=[A-Z]))",
        "give the job its credentials (a file that only you can read, or `environment.variables`), and check that they are still valid",
    ),
    (
        r"\b404 (?:Client|Not)|RepositoryNotFound|NoSuchKey|NoSuchBucket",
        "check the name and version of what is downloaded",
    ),
    (
        r"\b429 Client|Too Many Requests|[Rr]ate limit",
        "fetch it once before the job, rather than from each rank",
    ),
    (
        r"Connection|Timeout|[Tt]imed out|Network|unreachable|resolve host|SSL|[Cc]ertificate|URLError|HTTPError",
        "check whether the other end runs, and whether a compute node reaches it; download what it needs before the job",
    ),
    (
        r"MemoryError|[Oo]ut of memory|Cannot allocate|bad_alloc",
        "ask for more with `resources.memory_per_node`, or load less at once",
    ),
    (
        r"RecursionError|maximum recursion",
        "a function calls itself without an end, or a structure refers to itself",
    ),
    (
        r"[Cc]an't pickle|[Cc]annot pickle|PicklingError|not (?:JSON )?serializable",
        "what is sent to another process or stored must be plain data: no lambdas, open files, locks or local functions",
    ),
    (
        r"'NoneType' object|is None|null pointer|NoneType",
        "a call before that line returned nothing: print what it is, and see why it is missing",
    ),
    (
        r"unexpected keyword argument|missing \d+ required (?:positional|keyword)|has no attribute|cannot import name|takes \d+ positional|got multiple values|AbstractMethodError|NotImplementedError|not implemented|[Dd]eprecated|no longer supported",
        "compare the versions of the packages with those that the program was written for (`pip list`, its requirements); if it is your own code, correct the call",
    ),
    (
        r"KeyError",
        "print the keys that there are before that line; correct the name in the configuration, the data or the checkpoint",
    ),
    (
        r"IndexError|out[ _]of[ _](?:range|bounds)|\(which is \d+\) >|StopIteration|empty sequence|max\(\) arg",
        "the list, batch or data set is shorter than expected, or empty: print its length before that line",
    ),
    (
        r"ZeroDivisionError|division by zero|divide by zero",
        "the divisor is 0: often the length of an empty data set, or fewer samples than ranks",
    ),
    (
        r"\bnan\b|\bNaN\b|\binf\b(?! checks)|OverflowError|[Oo]verflow encountered|(?:[Gg]radient|[Ll]oss)\b.{0,40}[Oo]verflow|FloatingPointError|\b(?:loss|training|optimi\w+)\b.{0,40}\bdiverge|\bdiverge.{0,40}\bloss",
        "check the loss before it, the learning rate and the data for values that are not numbers",
    ),
    (
        r"AssertionError|Assertion .*failed|[Aa]ssertion failed|Check failed|panick",
        "the condition that it names does not hold: see the code there for what it expects of the data and the configuration",
    ),
    (
        r"UndefVarError",
        "correct the name, or load the package that has it (`using`; for other processes `@everywhere using`)",
    ),
    (
        r"SyntaxError|IndentationError|TabError|NameError|UnboundLocalError|is not defined|[Ss]yntax error|undeclared|unbound variable",
        _CODE,
    ),
    (r"KeyboardInterrupt", "find who sent SIGINT: a user, or a launcher that was interrupted"),
    (
        r"CalledProcessError|non-zero (?:exit|return)|returned [1-9]\d*|exit (?:code|status) [1-9]",
        "see what that command printed above, and run it alone on a compute node",
    ),
    (
        r"(?i)\b(?:hash|checksum|fingerprint|version|schema)\b.*\b(?:differs?|mismatch\w*|does not match|expected)\b",
        "two things that belong together are of different versions: make one of them again from the other, or use the pair that was made together",
    ),
    (
        r"missing EQUAL|mismatched input|extraneous input|no viable alternative|Could not override|not in struct|You must specify",
        "correct the overrides on the command line: `NAME=VALUE` without spaces, quoted for the shell, with names that the configuration has",
    ),
    (
        r"ValueError|TypeError|IllegalArgument|invalid_argument|must be|should be|expected",
        "compare the value that it names with what is expected: it comes from the command's arguments, the configuration or the data",
    ),
)
"""Regular expression of what a program said -> the way out; the first that matches counts."""
