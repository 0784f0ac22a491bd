//! The one place that names the encoder: bincode 2.0.1, its standard (variable-length, little-endian) configuration
//! over serde. Types must be plain: no `flatten`, no `untagged`, no skipped fields.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest encoded message, in bytes. Also bounds what a decoder may allocate.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Largest encoded state (a snapshot's), in bytes. It is read from a checked file or a trusted member, whole.
pub const MAX_STATE: usize = 1024 * 1024 * 1024;

/// A message could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The value has a part the encoder cannot express, or exceeds [`MAX_MESSAGE`].
    #[error("cannot encode the message: {0}")]
    Encode(String),
    /// The bytes are not a message of this type.
    #[error("malformed message: {0}")]
    Decode(String),
    /// Bytes were left over behind the message.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
}

/// Encodes a message.
///
/// # Errors
/// [`CodecError::Encode`] when the type is not plain or the message is too large.
pub fn encode<T: Serialize + ?Sized>(message: &T) -> Result<Vec<u8>, CodecError> {
    encode_within(message, MAX_MESSAGE)
}

/// Encodes a state, which may be larger than a message.
///
/// # Errors
/// [`CodecError::Encode`] when the type is not plain or the state exceeds [`MAX_STATE`].
pub fn encode_state<T: Serialize + ?Sized>(state: &T) -> Result<Vec<u8>, CodecError> {
    encode_within(state, MAX_STATE)
}

fn encode_within<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<Vec<u8>, CodecError> {
    let bytes = bincode::serde::encode_to_vec(value, bincode::config::standard())
        .map_err(|error| CodecError::Encode(error.to_string()))?;
    if bytes.len() > limit {
        return Err(CodecError::Encode(format!("{} bytes exceed the limit of {limit}", bytes.len())));
    }
    Ok(bytes)
}

/// Decodes a whole message.
///
/// # Errors
/// [`CodecError`] when the bytes are not exactly one message of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    decode_within::<T, MAX_MESSAGE>(bytes)
}

/// Decodes a whole state, which may be larger than a message.
///
/// # Errors
/// [`CodecError`] when the bytes are not exactly one state of this type.
pub fn decode_state<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    decode_within::<T, MAX_STATE>(bytes)
}

fn decode_within<T: DeserializeOwned, const LIMIT: usize>(bytes: &[u8]) -> Result<T, CodecError> {
    let bounded = bincode::config::standard().with_limit::<LIMIT>();
    let (message, used) = bincode::serde::decode_from_slice(bytes, bounded)
        .map_err(|error| CodecError::Decode(error.to_string()))?;
    match bytes.len() - used {
        0 => Ok(message),
        left => Err(CodecError::Trailing(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lying_length_is_refused_without_allocating() {
        let claims_four_gib = [253, 0, 0, 0, 0, 1, 0, 0, 0];
        assert!(matches!(decode::<Vec<u8>>(&claims_four_gib), Err(CodecError::Decode(_))));
    }

    #[test]
    fn trailing_bytes_are_refused() {
        let mut bytes = encode(&7u32).unwrap();
        bytes.push(0);
        assert_eq!(decode::<u32>(&bytes), Err(CodecError::Trailing(1)));
    }
}
