//! `portolan pki`: the mesh's authorities and what they sign, as files.
//!
//! An authority's directory holds `ca.pem` (every trusted authority of nodes, the one that signs first), `ca.key`,
//! `listeners-ca.pem` and `listeners-ca.key`. A node's directory holds what `mesh::Credentials` reads.

use std::path::Path;
use std::time::Duration;

use base::Name;
use mesh::pki::{self, Issued, PkiError};
use mesh::{AUTHORITIES, CERTIFICATE, Identity, KEY};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use seam::Host;

use crate::args::Pki;
use crate::failure::{Exit, Failure, Outcome};
use crate::files::{self, Readers};
use crate::operator::status::utc;
use crate::{node, out};

const CA_KEY: &str = "ca.key";
const LISTENERS_CA: &str = "listeners-ca.pem";
const LISTENERS_CA_KEY: &str = "listeners-ca.key";
pub(crate) const LISTENER: &str = "listener.pem";
pub(crate) const LISTENER_KEY: &str = "listener.key";

pub(crate) fn run(command: Pki) -> Outcome {
    node::block_on(async { perform(&Host::real(), command) })
}

fn perform(host: &Host, command: Pki) -> Outcome {
    match command {
        Pki::Init { dir, mesh, days } => init(host, &dir, &mesh, days_of(days)),
        Pki::Issue { dir, role, region, node, out, days } => {
            let mesh = mesh_of(&dir)?;
            issue(host, &dir, &Identity { mesh, role, region, node }, &out, days_of(days))
        }
        Pki::Listener { dir, names, out, days } => listener(host, &dir, &names, &out, days_of(days)),
        Pki::Rotate { dir, authority: true, .. } => rotate_authority(host, &dir),
        Pki::Rotate { dir, credentials, trust_only, days, .. } => {
            // All or none: a round that stops half-way is hard to tell from one that is done.
            credentials.iter().try_for_each(|of| may_rotate(host, &dir, of, trust_only))?;
            credentials.iter().try_for_each(|of| rotate(host, &dir, of, trust_only, days_of(days)))
        }
        Pki::SealKey { out } => seal_key(host, &out),
        Pki::Show { paths } => paths.iter().try_for_each(|path| show(host, path)),
    }
}

/// Whether `dir` holds an authority.
pub(crate) fn exists(dir: &Path) -> bool {
    files::exists(&dir.join(CA_KEY))
}

/// Makes the authorities of a mesh in `dir`.
pub(crate) fn init(host: &Host, dir: &Path, mesh: &Name, validity: Duration) -> Outcome {
    if exists(dir) {
        let mend = "choose another --dir, or renew this one with `portolan pki rotate --authority`";
        return Err(Failure::failed(format!("{} already holds an authority", dir.display())).mend(mend));
    }
    files::make_dir(dir)?;
    let authority = pki::create_authority(host, mesh, validity).map_err(cannot)?;
    let listeners = pki::create_listener_authority(host, mesh, validity).map_err(cannot)?;
    store(dir, &authority, AUTHORITIES, CA_KEY)?;
    store(dir, &listeners, LISTENERS_CA, LISTENERS_CA_KEY)?;
    // Whose authority it is, for those who issue.
    files::write(&dir.join("mesh"), &format!("{mesh}\n"), Readers::All)
}

/// Makes credentials for a node or an operator in `to`.
pub(crate) fn issue(host: &Host, dir: &Path, identity: &Identity, to: &Path, validity: Duration) -> Outcome {
    let authority = load(dir, AUTHORITIES, CA_KEY)?;
    files::make_dir(to)?;
    let issued = pki::issue(host, &authority, identity, validity).map_err(cannot)?;
    files::write(&to.join(AUTHORITIES), &authority.certificate, Readers::All)?;
    store(to, &issued, CERTIFICATE, KEY)
}

/// Makes a listener's certificate in `to`.
pub(crate) fn listener(host: &Host, dir: &Path, names: &[String], to: &Path, validity: Duration) -> Outcome {
    let authority = load(dir, LISTENERS_CA, LISTENERS_CA_KEY)?;
    files::make_dir(to)?;
    let issued = pki::issue_listener(host, &authority, names, validity).map_err(cannot)?;
    store(to, &issued, LISTENER, LISTENER_KEY)
}

/// Makes a key that seals providers' credentials, in front of those that the file has: it seals, all open.
pub(crate) fn seal_key(host: &Host, path: &Path) -> Outcome {
    let kept = if files::exists(path) { files::read(path)? } else { String::new() };
    let numbers = kept.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok());
    let number = numbers.max().map_or(1, |highest| highest.saturating_add(1));
    files::write(path, &format!("{number} {}\n{kept}", random_hex(host)), Readers::Owner)
}

/// 256 random bits in hexadecimal.
pub(crate) fn random_hex(host: &Host) -> String {
    format!("{:032x}{:032x}", host.random_u128(), host.random_u128())
}

/// The authority of listeners, as callers trust it.
pub(crate) fn listeners_authority(dir: &Path) -> std::path::PathBuf {
    dir.join(LISTENERS_CA)
}

/// Whether a node would still be trusted, and trust itself, after a round of rotation.
fn may_rotate(host: &Host, dir: &Path, of: &Path, trust_only: bool) -> Outcome {
    let refused = |what: String, mend: &str| Err(Failure::new(Exit::Refused, what).mend(mend));
    let new = files::read(&dir.join(AUTHORITIES))?;
    if trust_only {
        let read = |name: &str| files::read(&of.join(name));
        if mesh::Credentials::from_pem(host, &read(CERTIFICATE)?, &read(KEY)?, &new).is_err() {
            let what = format!(
                "no authority in {} signed the valid certificate of {}: the node would trust no node like itself",
                dir.join(AUTHORITIES).display(),
                of.display()
            );
            return refused(what, "renew it first: `portolan pki rotate --credentials DIR`");
        }
        return Ok(());
    }
    let signs = first_certificate(&dir.join(AUTHORITIES))?;
    if !certificates(&of.join(AUTHORITIES))?.contains(&signs) {
        let what = format!("{} does not trust the authority that signs now", of.display());
        let mend = "first let every node trust it: `portolan pki rotate --trust-only --credentials DIR…`";
        return refused(what, mend);
    }
    Ok(())
}

fn rotate(host: &Host, dir: &Path, of: &Path, trust_only: bool, validity: Duration) -> Outcome {
    let leaf = first_certificate(&of.join(CERTIFICATE))?;
    let identity = Identity::of_certificate(&leaf).map_err(|error| {
        Failure::new(Exit::Invalid, format!("{}: {error}", of.join(CERTIFICATE).display()))
    })?;
    let mesh = mesh_of(dir)?;
    if identity.mesh != mesh {
        let what = format!("{} is of mesh {}, the authority of mesh {mesh}", of.display(), identity.mesh);
        return Err(Failure::new(Exit::Invalid, what));
    }
    if trust_only {
        return files::write(&of.join(AUTHORITIES), &files::read(&dir.join(AUTHORITIES))?, Readers::All);
    }
    issue(host, dir, &identity, of, validity)
}

fn rotate_authority(host: &Host, dir: &Path) -> Outcome {
    let mesh = mesh_of(dir)?;
    let trusted = files::read(&dir.join(AUTHORITIES))?;
    let new = pki::create_authority(host, &mesh, days_of(3650)).map_err(cannot)?;
    files::write(&dir.join(CA_KEY), &new.key, Readers::Owner)?;
    files::write(&dir.join(AUTHORITIES), &format!("{}{trusted}", new.certificate), Readers::All)?;
    out::remark("a new authority signs from now on. In this order, each for every node:");
    out::remark("  1. portolan pki rotate --trust-only --credentials DIR   (nodes trust both authorities)");
    out::remark("  2. portolan pki rotate --credentials DIR                (nodes show the new one)");
    out::remark(
        "  3. remove the old certificate from ca.pem (the last; `portolan pki show` tells), then step 1 again",
    );
    Ok(())
}

fn show(host: &Host, path: &Path) -> Outcome {
    if !files::is_dir(path) {
        return show_file(host, path);
    }
    let mut names = files::list(path)?;
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "pem"));
    names.sort_unstable();
    names.iter().try_for_each(|name| show_file(host, &path.join(name)))
}

fn show_file(host: &Host, path: &Path) -> Outcome {
    for leaf in certificates(path)? {
        let told = pki::describe(&leaf)
            .map_err(|error| Failure::new(Exit::Invalid, format!("{}: {error}", path.display())))?;
        let left = told.expires.since(host.wall()).as_secs() / 86_400;
        let validity = match told.expires <= host.wall() {
            true => "expired".to_owned(),
            false => format!("valid for {left} days"),
        };
        out::line(format_args!(
            "{}: {}, {validity} ({} to {}), signed by {}, sha256 {}",
            path.display(),
            told.subject,
            utc(told.begins.as_millis()),
            utc(told.expires.as_millis()),
            told.issuer,
            told.fingerprint
        ));
    }
    Ok(())
}

fn store(dir: &Path, issued: &Issued, certificate: &str, key: &str) -> Outcome {
    files::write(&dir.join(key), &issued.key, Readers::Owner)?;
    files::write(&dir.join(certificate), &issued.certificate, Readers::All)
}

fn load(dir: &Path, certificate: &str, key: &str) -> Result<Issued, Failure> {
    let mend = "make one with `portolan pki init`, or say where it is with --dir";
    let read = |name: &str| files::read(&dir.join(name)).map_err(|failure| failure.mend(mend));
    Ok(Issued { certificate: read(certificate)?, key: read(key)? })
}

/// The mesh of an authority.
fn mesh_of(dir: &Path) -> Result<Name, Failure> {
    let path = dir.join("mesh");
    let mend = "make an authority with `portolan pki init`, or say where it is with --dir";
    let text = files::read(&path).map_err(|failure| failure.mend(mend))?;
    text.trim().parse().map_err(|error| Failure::new(Exit::Invalid, format!("{}: {error}", path.display())))
}

fn first_certificate(path: &Path) -> Result<CertificateDer<'static>, Failure> {
    certificates(path)?
        .into_iter()
        .next()
        .ok_or_else(|| Failure::new(Exit::Invalid, format!("{} holds no certificate", path.display())))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    CertificateDer::pem_slice_iter(files::read(path)?.as_bytes()).collect::<Result<_, _>>().map_err(|error| {
        Failure::new(Exit::Invalid, format!("{} is not usable PEM: {error}", path.display()))
    })
}

fn cannot(error: PkiError) -> Failure {
    Failure::failed(error)
}

pub(crate) const fn days_of(days: u32) -> Duration {
    Duration::from_secs(days as u64 * 86_400)
}

#[cfg(test)]
mod tests {
    use mesh::Credentials;

    use super::*;

    #[tokio::test]
    async fn credentials_are_made_renewed_and_kept_from_others() {
        let dir = tempfile::tempdir().unwrap();
        let (host, authority, node) = (Host::real(), dir.path().join("pki"), dir.path().join("e1"));
        init(&host, &authority, &"demo".parse().unwrap(), days_of(10)).unwrap();
        let twice = init(&host, &authority, &"demo".parse().unwrap(), days_of(10)).unwrap_err();
        assert!(twice.to_string().contains("already holds an authority"), "{twice}");

        let identity: Identity = "portolan://demo/edge/eu/e1".parse().unwrap();
        issue(&host, &authority, &identity, &node, days_of(5)).unwrap();
        let credentials = Credentials::load(&host, &node).await.unwrap();
        assert_eq!(credentials.identity(), identity);
        for secret in [node.join(KEY), authority.join(CA_KEY), authority.join(LISTENERS_CA_KEY)] {
            assert_eq!(files::mode(&secret), 0o600, "{secret:?}");
        }

        let before = credentials.expires();
        rotate_authority(&host, &authority).unwrap();
        let early = may_rotate(&host, &authority, &node, false).unwrap_err().to_string();
        assert!(early.contains("does not trust the authority") && early.contains("--trust-only"), "{early}");
        let both = files::read(&authority.join(AUTHORITIES)).unwrap();
        let (new, _old) = both.split_at(both.len() / 2);
        files::write(&authority.join(AUTHORITIES), new, Readers::All).unwrap();
        let cut_off = may_rotate(&host, &authority, &node, true).unwrap_err().to_string();
        assert!(cut_off.contains("renew it first"), "{cut_off}");
        files::write(&authority.join(AUTHORITIES), &both, Readers::All).unwrap();
        may_rotate(&host, &authority, &node, true).unwrap();
        rotate(&host, &authority, &node, true, days_of(9)).unwrap();
        assert!(credentials.reload().await.unwrap(), "the new authority is trusted");
        assert_eq!(credentials.expires(), before);
        may_rotate(&host, &authority, &node, false).unwrap();
        rotate(&host, &authority, &node, false, days_of(9)).unwrap();
        assert!(credentials.reload().await.unwrap(), "the new certificate is in force");
        assert!(credentials.expires() > before);
    }
}
