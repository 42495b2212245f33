/** Why an answer is not accepted: one word for each reason, the same in every language. */
export type Code =
  | 'malformed' | 'otherKind' | 'unknownKey' | 'revokedKey' | 'signature' | 'proof' | 'noProof'
  | 'noPolicy' | 'noLogProof' | 'unknownLog' | 'unlisted' | 'checkpointSignature' | 'quorum' | 'inclusion'
  | 'noCheckpoint' | 'noFinality' | 'noNetwork' | 'otherChain' | 'otherBlock' | 'otherCheckpoint'
  | 'checkpointTooOld' | 'committee' | 'tooFewSigners' | 'committeeSignature' | 'branch' | 'link';

/** What `verify` throws. `code` is the reason, `name` its class, `message` the reason in words. */
export class VerificationError extends Error {
  readonly code: Code;
  override readonly name: string = 'VerificationError';
  constructor(code: Code, message: string) {
    super(message);
    this.code = code;
  }
}

/** A document that its format does not allow: answer, keys, log proof, policy or finality document. */
export class MalformedError extends VerificationError {
  override readonly name = 'MalformedError';
  constructor(message: string) { super('malformed', message); }
}
/** A receipt of another kind than the one that is expected. */
export class OtherKindError extends VerificationError {
  override readonly name = 'OtherKindError';
  constructor(message: string) { super('otherKind', message); }
}
/** A signature by a key that the key document does not list. */
export class UnknownKeyError extends VerificationError {
  override readonly name = 'UnknownKeyError';
  constructor(message: string) { super('unknownKey', message); }
}
/** A signature by a key that its owner has withdrawn, and that no log has before the key's cut-off. */
export class RevokedKeyError extends VerificationError {
  override readonly name = 'RevokedKeyError';
  constructor(message: string) { super('revokedKey', message); }
}
/** A signature that does not match the receipt. */
export class SignatureError extends VerificationError {
  override readonly name = 'SignatureError';
  constructor(message = 'signature does not match') { super('signature', message); }
}
/** A proof that does not lead to the receipt's block hash, or a receipt that differs from its proof. */
export class ProofError extends VerificationError {
  override readonly name = 'ProofError';
  constructor(message: string) { super('proof', message); }
}
/** An answer without its proof, where one is required. */
export class NoProofError extends VerificationError {
  override readonly name = 'NoProofError';
  constructor() { super('noProof', 'the answer has no proof; requireProof: false accepts the signature alone'); }
}
/** A receipt that is not in the log as the reader's policy asks. `code` says what is wrong. */
export class LogError extends VerificationError {
  override readonly name = 'LogError';
}
/** A block that is not shown to be final from the reader's checkpoint on. `code` says what is wrong. */
export class FinalityError extends VerificationError {
  override readonly name = 'FinalityError';
}

export const malformed = (message: string): MalformedError => new MalformedError(message);
