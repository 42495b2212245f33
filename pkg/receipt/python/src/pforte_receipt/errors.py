"""Why an answer is not accepted."""


class VerificationError(Exception):
    """What verify raises. code is the reason in one word, the same in every language."""

    code = ""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code or self.code


class MalformedError(VerificationError):
    """A document that its format does not allow: answer, keys, log proof or policy."""

    code = "malformed"


class OtherKindError(VerificationError):
    """A receipt of another kind than the one that is expected."""

    code = "otherKind"


class UnknownKeyError(VerificationError):
    """A signature by a key that the key document does not list."""

    code = "unknownKey"


class RevokedKeyError(VerificationError):
    """A signature by a key that its owner has withdrawn, and that no log has before the key's cut-off."""

    code = "revokedKey"


class SignatureError(VerificationError):
    """A signature that does not match the receipt."""

    code = "signature"


class ProofError(VerificationError):
    """A proof that does not lead to the receipt's block hash, or a receipt that differs from its proof."""

    code = "proof"


class NoProofError(VerificationError):
    """An answer without its proof, where one is required."""

    code = "noProof"


class LogError(VerificationError):
    """A receipt that is not in the log as the reader's policy asks. code says what is wrong."""


class FinalityUnsupportedError(VerificationError):
    """Finality documents, which this package does not check: the npm module and the Go program do."""

    code = "finalityUnsupported"
