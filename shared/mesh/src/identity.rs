//! Who a node is: the URI in its certificate's subject alternative names, `portolan://MESH/ROLE/REGION/NODE`.

use std::fmt;
use std::str::FromStr;

use base::{IdError, Name, RegionName, Role};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

const SCHEME: &str = "portolan://";

/// A node as its certificate names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The mesh it belongs to.
    pub mesh: Name,
    /// What it may do.
    pub role: Role,
    /// Where it is.
    pub region: RegionName,
    /// Its name, unique in the mesh.
    pub node: Name,
}

/// A text or certificate names no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The certificate cannot be parsed.
    #[error("the certificate is malformed")]
    Malformed,
    /// The certificate does not have exactly one `portolan://` URI.
    #[error("the certificate has {0} portolan:// URIs, expected 1")]
    Count(usize),
    /// The URI does not have the four parts.
    #[error("{0:?} is not portolan://MESH/ROLE/REGION/NODE")]
    Shape(String),
    /// One part is not well formed.
    #[error("the {part} {text:?} {why}")]
    Part {
        /// Which part.
        part: &'static str,
        /// What it says.
        text: String,
        /// What is wrong with it.
        why: IdError,
    },
}

impl Identity {
    /// The identity in a certificate (DER).
    ///
    /// # Errors
    /// [`IdentityError`] when it is malformed or names none.
    pub fn of_certificate(der: &[u8]) -> Result<Self, IdentityError> {
        let (_rest, certificate) = parse_x509_certificate(der).map_err(|_error| IdentityError::Malformed)?;
        let names = certificate.subject_alternative_name().map_err(|_error| IdentityError::Malformed)?;
        let uris: Vec<&str> = names
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _other => None,
            })
            .collect();
        match uris.as_slice() {
            [uri] => uri.parse(),
            others => Err(IdentityError::Count(others.len())),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}/{}/{}", self.mesh, self.role, self.region, self.node)
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let shape = || IdentityError::Shape(uri.to_owned());
        let parts: Vec<&str> = uri.strip_prefix(SCHEME).ok_or_else(shape)?.split('/').collect();
        let [mesh, role, region, node] = parts.as_slice() else { return Err(shape()) };
        Ok(Self {
            mesh: part("mesh", mesh)?,
            role: part("role", role)?,
            region: part("region", region)?,
            node: part("node", node)?,
        })
    }
}

fn part<T: FromStr<Err = IdError>>(part: &'static str, text: &str) -> Result<T, IdentityError> {
    text.parse().map_err(|why| IdentityError::Part { part, text: text.to_owned(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_reads_back_and_others_are_refused() {
        let text = "portolan://demo/edge/eu/edge-1";
        assert_eq!(text.parse::<Identity>().unwrap().to_string(), text);
        for wrong in ["https://demo/edge/eu/e", "portolan://demo/edge/eu", "portolan://demo/edge/eu/e/x"] {
            assert!(matches!(wrong.parse::<Identity>(), Err(IdentityError::Shape(_))), "{wrong}");
        }
        let role = "portolan://demo/king/eu/e".parse::<Identity>().unwrap_err();
        assert_eq!(role.to_string(), "the role \"king\" is not one of central, edge, operator");
    }
}
