//! Proof of possession of a token's key, DPoP (RFC 9449): the interface of transports and verifiers.

/// The request that a proof must have been signed for.
#[derive(Clone, Copy, Debug)]
pub struct ProofContext<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// URL as the client knows it, without query and fragment.
    pub url: &'a str,
    /// The access token beside the proof.
    pub token: &'a str,
    /// Thumbprint (RFC 7638) of the key that the token is bound to.
    pub thumbprint: &'a str,
}

/// Rejection of a DPoP proof, or of a token sent without the proof it needs. The texts help the
/// client and reveal nothing to others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProofRejected {
    /// A bound token was sent as a bearer token.
    #[error("The token is bound to a key: send it as Authorization: DPoP TOKEN, with a proof.")]
    Downgraded,
    /// The scheme is DPoP and the token is not bound to a key.
    #[error("The token is not bound to a key: send it as Authorization: Bearer TOKEN.")]
    Unbound,
    /// There is no proof, or more than one.
    #[error("Send exactly one DPoP header with a proof.")]
    Missing,
    /// Longer than any honest proof.
    #[error("The DPoP proof is too long.")]
    TooLong,
    /// Not a signed JWT with the required members.
    #[error("The DPoP proof is malformed: {0}.")]
    Malformed(&'static str),
    /// Another `typ` than `dpop+jwt`.
    #[error("The DPoP proof is of another type than dpop+jwt.")]
    Type,
    /// An algorithm that is not accepted, such as `none` or a symmetric one.
    #[error("The algorithm of the DPoP proof is not accepted.")]
    Algorithm,
    /// The `jwk` contains a private or symmetric key.
    #[error("The DPoP proof reveals its private key: replace the key.")]
    PrivateKey,
    /// The signature does not verify.
    #[error("The signature of the DPoP proof is not valid.")]
    Signature,
    /// Signed by another key than the token is bound to.
    #[error("The DPoP proof is signed by another key than the token is bound to.")]
    Key,
    /// Made for another HTTP method.
    #[error("The DPoP proof is for another HTTP method.")]
    Method,
    /// Made for another URL.
    #[error("The DPoP proof is for another URL than {0}.")]
    Url(String),
    /// Issued too long ago or in the future.
    #[error("The DPoP proof is too old, or from the future: check the clock.")]
    Time,
    /// Made for another access token.
    #[error("The DPoP proof is for another access token.")]
    TokenHash,
    /// Used before.
    #[error("The DPoP proof was used before: sign a new one for each request.")]
    Replayed,
    /// Without the nonce that is required; this one is to be used.
    #[error("The DPoP proof needs the nonce of the DPoP-Nonce header.")]
    Nonce(String),
    /// Too many proofs to remember at the moment.
    #[error("The DPoP proof cannot be checked at the moment; try again later.")]
    Unavailable,
}

impl ProofRejected {
    /// The error code of the challenge (RFC 6750, RFC 9449).
    pub fn code(&self) -> &'static str {
        match self {
            // The token cannot be used this way, whatever the proof.
            Self::Downgraded | Self::Unbound | Self::Key => "invalid_token",
            Self::Nonce(_) => "use_dpop_nonce",
            _ => "invalid_dpop_proof",
        }
    }
}

/// The use of DPoP by a server, as protected resource metadata reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProofRequirements {
    /// Accepted signature algorithms of proofs.
    pub algorithms: Vec<String>,
    /// Set if every token of an authorization server must be bound to a key.
    pub is_required: bool,
}
