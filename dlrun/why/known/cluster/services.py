"""Errors of clients that a job uses on its node: object stores, proxies, git and its large files."""

from __future__ import annotations

from dlrun.why.known.form import Form, Writer

_S3 = "https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"


def _codes(codes: str) -> str:
    """A regular expression of codes (with spaces between) of an object store, as clients show them: boto, object_store, s5cmd, rclone, MinIO."""
    return rf"(?:An error occurred \(|<Code>|\b[Cc]ode: \"?(?=[A-Z])|\bS3 error: |\bapi error |ErrorCode:|\bFailed to \w+: (?=[A-Z]\w+: ))((?:{codes.replace(' ', '|')})(?:Exception|Error)?)\b"


# ruff: noqa: E501 - a table
WRITERS = (
    Writer(
        name="object stores",
        source=_S3,
        forms=(
            Form(
                cause="no-access",
                texts=(),
                regex=_codes("RequestTimeTooSkewed RequestExpired RequestInTheFuture"),
                source=_S3,
                means="the clock of the node differs from that of the object store ({1}), which therefore refuses its signature",
                check="`date -u` on the node",
                next="exclude the node (`resources.exclude`), submit again, and report its clock to the centre",
            ),
            Form(
                cause="no-access",
                texts=(
                    "PartialCredentialsError: {1}",
                    "Anonymous caller does not have {1} access",
                    "does not have storage.{1} access",
                    "TokenRetrievalError: {1}",
                    "SSOTokenLoadError: {1}",
                    "UnauthorizedSSOTokenError: {1}",
                    "CredentialRetrievalError: {1}",
                    "could not be found Profile ({1})",
                    "The config profile ({1}) could not be found",
                ),
                regex=_codes(
                    "AccessDenied AuthenticationFailed AuthorizationFailure AuthorizationPermissionMismatch AllAccessDisabled AccountProblem InvalidToken InvalidSecurity InvalidAccessKeyId SignatureDoesNotMatch ExpiredToken TokenRefreshRequired NotSignedUp UnauthorizedAccess Unauthorized Forbidden InvalidClientTokenId UnrecognizedClient AuthFailure InvalidIdentityToken CredentialsNotSupported NoAuthHandlerFound"
                ),
                source=_S3,
            ),
            Form(
                cause="not-found",
                texts=(),
                regex=_codes(
                    "NoSuchKey NoSuchBucket ContainerNotFound BlobNotFound NoSuchUpload NoSuchVersion ResourceNotFound 404"
                ),
                source=_S3,
            ),
            Form(
                cause="hub-limit",
                texts=(),
                regex=_codes(
                    "SlowDown SlowDownRead SlowDownWrite Throttling RequestThrottled RequestLimitExceeded TooManyRequests ProvisionedThroughputExceeded BandwidthLimitExceeded LimitExceeded ServerBusy 429"
                ),
                source=_S3,
                means="the object store limits requests ({1}): many ranks or loader processes asked it within a short time",
                next="let fewer ranks ask: one of each node reads or writes for the others, in larger objects; retry later and more often (`environment.variables: {AWS_RETRY_MODE: adaptive, AWS_MAX_ATTEMPTS: 10}`)",
            ),
            Form(
                cause="quota",
                texts=(),
                regex=_codes(
                    "QuotaExceeded StorageQuotaExceeded XMinioStorageFull XMinioAdminBucketQuotaExceeded InsufficientStorage InsufficientCapacity"
                ),
                source="https://min.io/docs/minio/linux/operations/troubleshooting.html",
                means="the object store is full, or the bucket's quota is used up ({1})",
                next="delete objects there, or write to another bucket or a file system",
            ),
            Form(
                cause="file-damaged",
                texts=("FlexibleChecksumError: {1}", "s3_crt: checksum mismatch"),
                regex=_codes(
                    "BadDigest InvalidDigest IncompleteBody XAmzContentChecksumMismatch XAmzContentSHA256Mismatch ChecksumMismatch"
                ),
                source=_S3,
                means="an object arrived corrupted: {1}",
                check="the size and the checksum of the object and of the file",
                next="copy it again; a store that is not of AWS may need `environment.variables: {AWS_REQUEST_CHECKSUM_CALCULATION: when_required}`",
            ),
            Form(
                cause="configuration",
                texts=(
                    "botocore.exceptions.NoRegionError: {1}",
                    "botocore.exceptions.ParamValidationError: {1}",
                    "ValueError: Invalid endpoint: {1}",
                    "InvalidRegionError: {1}",
                ),
                regex=_codes(
                    "InvalidRegion IllegalLocationConstraint AuthorizationHeaderMalformed PermanentRedirect TemporaryRedirect MovedPermanently 301 InvalidBucketName BucketAlreadyExists BucketAlreadyOwnedByYou InvalidLocationConstraint"
                ),
                source=_S3,
                means="the bucket is not in the region, or not at the address, at which the program asks for it: {1}",
                check="`aws s3api get-bucket-location --bucket NAME` on a login node",
                next="set its region and address (`environment.variables: {AWS_DEFAULT_REGION: …, AWS_ENDPOINT_URL: https://…}`), and make the bucket before the job",
            ),
            Form(
                cause="configuration",
                texts=(),
                regex=_codes(
                    "EntityTooLarge EntityTooSmall InvalidPart InvalidPartOrder InvalidRange InvalidRequest InvalidArgument MethodNotAllowed MissingContentLength KeyTooLong InvalidObjectState InvalidStorageClass PreconditionFailed NotImplemented OperationAborted ConditionalRequestConflict InvalidURI MalformedXML"
                ),
                source=_S3,
                means="the object store refuses what the program asks it for: {1}",
                next="correct the call that the traceback names: the size of parts, the name, or a feature that this store does not have",
            ),
            Form(
                cause="no-network",
                texts=(
                    "botocore.exceptions.HTTPClientError: {1}",
                    "botocore.exceptions.ReadTimeoutError: {1}",
                    "botocore.exceptions.ResponseStreamingError: {1}",
                ),
                regex=_codes("InternalError InternalFailure ServiceUnavailable RequestTimeout 50[0234]"),
                source=_S3,
                means="the object store did not answer as it should, or closed the connection: {1}",
                check="`curl -I` of its address on a compute node",
                next="retry more often (`environment.variables: {AWS_MAX_ATTEMPTS: 10}`); if the node does not reach it at all, copy the data before the job (`data`)",
                passing=True,
            ),
        ),
    ),
    Writer(
        name="proxies",
        source="https://www.rfc-editor.org/rfc/rfc9110#name-connect",
        forms=(
            Form(
                cause="no-access",
                texts=("Tunnel connection failed: 407{1}", "CONNECT tunnel failed, response 407"),
                source="https://github.com/urllib3/urllib3/blob/main/src/urllib3/connection.py",
                means="the proxy of the node's network wants a user name and a password",
                next="give `HTTPS_PROXY` with them under `secrets:`, or fetch what is needed before the job (`data`)",
            ),
            Form(
                cause="no-network",
                texts=(
                    "Tunnel connection failed: {1}",
                    "CONNECT tunnel failed, response {1}",
                    "Proxy CONNECT aborted{1}",
                    "proxyconnect tcp: {1}",
                    "Unable to connect to proxy",
                    "unsuccessful tunnel",
                ),
                source="https://github.com/urllib3/urllib3/blob/main/src/urllib3/connection.py",
                means="the proxy of the node's network does not let the program through to that server",
                check="`curl -sI https://huggingface.co` on a compute node, and `env | grep -i proxy`",
                next="correct or unset `HTTPS_PROXY` and `HTTP_PROXY` (`NO_PROXY` for hosts of the cluster), or fetch what is needed before the job (`data`)",
            ),
        ),
    ),
    Writer(
        name="git",
        source="https://git-scm.com/docs/git-clone",
        forms=(
            Form(
                cause="hub-limit",
                texts=("over its data quota", "exceeded its LFS budget", "bandwidth quota exceeded"),
                source="https://github.com/git-lfs/git-lfs/blob/main/tq/api.go",
                means="the repository's quota for large files (git LFS) is used up",
                next="fetch the files once and keep them on the cluster, or from another server; its owner can raise the quota",
                passing=True,
            ),
            Form(
                cause="no-access",
                texts=(
                    "fatal: Could not read from remote repository",
                    "fatal: Authentication failed for '{1}'",
                    "fatal: could not read Username for '{1}'",
                    "fatal: could not read Password for '{1}'",
                    "remote: Repository not found",
                    "remote: HTTP Basic: Access denied",
                    "Support for password authentication was removed",
                    "smudge filter lfs failed",
                    "batch request: {}exit status 255",
                    "batch response: Authentication required",
                    "remote: Invalid username or {1}",
                ),
                source="https://github.com/git-lfs/git-lfs/issues/3216",
                means="git could not get a repository: the node has no key or token of yours for its server, does not know the server's own key, or does not reach it",
                check="the same command on a compute node: `GIT_SSH_COMMAND='ssh -v' git ls-remote URL`",
                next="clone it on a login node before the job (its large files too), and use that directory; dlrun copies the code at submission (`code`)",
                passing=True,
            ),
            Form(
                cause="file-damaged",
                texts=(
                    "Error downloading object: {1}",
                    "fatal: early EOF",
                    "fatal: loose object {1} is corrupt",
                    "error: object file {1} is empty",
                ),
                source="https://git-scm.com/docs/git-fsck",
                means="git got only a part of a repository, or a file of it is damaged",
                next="clone it again, on a login node and before the job",
                consequence=True,
            ),
            Form(
                cause="file-locks",
                texts=("fatal: Unable to create '{1}.lock': File exists",),
                source="https://git-scm.com/docs/git-gc",
                means="another git works in the repository, or a killed one left its lock: {1}.lock",
                check="`ls -l` of it, and whether another job or rank uses the repository",
                next="remove that file if no git runs there; let one rank only call git, before the others start",
            ),
        ),
    ),
)
