//! Tokenizers of files: which of those that models name are at hand. Files are read when a configuration names them, away
//! from the tasks, each once; what is missing or wrong is told, and looked for again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seam::{Host, Stop};
use telemetry::metrics::EdgeMetrics;
use tokens::{Digest, Reference, Tokenizer, Unusable, Vocabulary};
use wire::catalog::Catalog;
use wire::control::MissingTokenizer;

use super::{Counting, sha256};
use crate::snapshot::Snapshots;

/// How often a file is looked for that is missing or wrong.
const AGAIN: Duration = Duration::from_secs(30);

/// Larger than any that is published: Gemma's has 33 MB.
const LARGEST: usize = 128 * 1024 * 1024;

/// What became of each file that models name, by the name that they give it.
#[derive(Clone, Debug, Default)]
pub(super) struct Files(BTreeMap<String, Result<Tokenizer, Missing>>);

/// Why a tokenizer is not at hand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Missing {
    #[error("it is no name of a tokenizer")]
    Name,
    #[error("it cannot be read: {0}")]
    Unread(String),
    #[error("it is larger than {LARGEST} bytes")]
    Large,
    #[error("it is another file than the configuration names")]
    Other,
    #[error("it cannot be used: {0}")]
    Unusable(Unusable),
    #[error("reading it was given up")]
    GivenUp,
}

impl Missing {
    /// What helps.
    fn mend(&self, name: &str, dir: &Path) -> String {
        let name = name.split('@').next().unwrap_or_default();
        let file = dir.join(format!("{name}.json"));
        let file = file.display();
        match self {
            Self::Name => {
                "correct `tokenizer` of its models: it is the name of a file, or of a tokenizer built in"
                    .to_owned()
            }
            Self::Unread(_why) => {
                format!("put the model's tokenizer.json there, readable by the node: {file}")
            }
            Self::Other => format!(
                "put the file of that digest there, or name the digest of this one in its models: {file}"
            ),
            Self::Large | Self::Unusable(_) => {
                format!(
                    "check it with `portolan config tokenizer` and replace it: {file}; else take `tokenizer` from its models"
                )
            }
            Self::GivenUp => "nothing: it is read again".to_owned(),
        }
    }
}

impl Files {
    pub(super) fn find(&self, name: &str) -> Option<Tokenizer> {
        self.0.get(name)?.as_ref().ok().cloned()
    }

    fn missing(&self, dir: &Path) -> Vec<MissingTokenizer> {
        let missing = self.0.iter().filter_map(|(name, file)| Some((name, file.as_ref().err()?)));
        missing
            .map(|(name, error)| MissingTokenizer {
                name: name.clone(),
                why: error.to_string(),
                mend: error.mend(name, dir),
            })
            .collect()
    }
}

impl Counting {
    /// Keeps the tokenizers at hand that models name, from files in `dir`, until `stop`.
    pub(crate) async fn follow(
        self,
        host: Host,
        dir: PathBuf,
        snapshots: Snapshots,
        metrics: EdgeMetrics,
        stop: Stop,
    ) {
        let mut changes = snapshots.watch();
        while !stop.is_wanted() {
            let missing = self.read_files(&host, &dir, snapshots.load().catalog()).await;
            metrics.tokenizers_missing.set(i64::try_from(missing).unwrap_or(i64::MAX));
            let again = async {
                match missing {
                    0 => std::future::pending().await,
                    _some => host.sleep(AGAIN).await,
                }
            };
            tokio::select! {
                biased;
                () = stop.wanted() => return,
                () = changes.next() => {}
                () = again => {}
            }
        }
    }

    /// The tokenizers that are not at hand.
    pub(crate) fn missing(&self) -> Arc<Vec<MissingTokenizer>> {
        self.0.missing.load_full()
    }

    /// Reads what the models of `catalog` name and is not at hand; gives how many are not.
    pub(crate) async fn read_files(&self, host: &Host, dir: &Path, catalog: &Catalog) -> usize {
        let before = self.0.files.load_full();
        let named = catalog.models.values().filter_map(|model| model.tokenizer.as_deref());
        let mut files = Files::default();
        for name in named.filter(|name| Tokenizer::named(name).is_none()) {
            let file = match (files.0.get(name), before.0.get(name)) {
                (Some(_twice), _) => continue,
                (None, Some(Ok(known))) => Ok(known.clone()),
                (None, known) => {
                    let read = read(host, dir, name, &before).await;
                    tell(name, dir, &read, known);
                    read
                }
            };
            files.0.insert(name.to_owned(), file);
        }
        let missing = files.missing(dir);
        self.0.files.store(Arc::new(files));
        let count = missing.len();
        self.0.missing.store(Arc::new(missing));
        count
    }
}

/// Tells what is new of a file.
fn tell(
    name: &str,
    dir: &Path,
    read: &Result<Tokenizer, Missing>,
    before: Option<&Result<Tokenizer, Missing>>,
) {
    match read {
        Ok(_tokenizer) => tracing::info!(tokenizer = name, "a tokenizer was read"),
        Err(error) if before.is_none_or(|before| before != read) => tracing::warn!(
            tokenizer = name, mend = error.mend(name, dir), %error,
            "a tokenizer is not at hand: bytes bound the calls of its models"
        ),
        Err(_told) => {}
    }
}

async fn read(host: &Host, dir: &Path, name: &str, known: &Files) -> Result<Tokenizer, Missing> {
    let Ok(Reference::File { name, digest }) = name.parse() else { return Err(Missing::Name) };
    let path = dir.join(format!("{name}.json"));
    let json = host.disk().read(&path).await.map_err(|error| Missing::Unread(error.to_string()))?;
    if json.len() > LARGEST {
        return Err(Missing::Large);
    }
    let same: Vec<_> = known.0.values().filter_map(|file| file.as_ref().ok().cloned()).collect();
    let reading = host.compute(move || vocabulary(&json, digest, &same));
    reading.await.unwrap_or(Err(Missing::GivenUp))
}

fn vocabulary(json: &[u8], wanted: Option<Digest>, known: &[Tokenizer]) -> Result<Tokenizer, Missing> {
    let digest = sha256(json);
    if wanted.is_some_and(|wanted| wanted != digest) {
        return Err(Missing::Other);
    }
    // Two names of one file.
    let same = known.iter().find(|known| known.id() == tokens::Id::File(digest));
    let read = || Vocabulary::read(json, digest).map(|read| Tokenizer::File(Arc::new(read)));
    same.cloned().map_or_else(read, Ok).map_err(Missing::Unusable)
}
