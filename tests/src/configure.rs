//! Configuration that tests apply to a mesh: every story gets a tenant, keys and models of its own.

use std::fmt::Write as _;

use crate::mesh::Mesh;

/// A tenant with one application and one key, and what it may use.
#[derive(Debug)]
pub struct Story {
    name: String,
    yaml: String,
}

impl Story {
    /// A story's tenant `name`, with the key [`Story::key`].
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut story = Self { name: name.to_owned(), yaml: String::new() };
        let key = story.key();
        let yaml = &mut story.yaml;
        write!(
            yaml,
            "tenants: [{{name: {name}}}]\napps: [{{tenant: {name}, name: app}}]\n\
             keys: [{{name: {name}-key, tenant: {name}, app: app, secret: {key}, debug: true}}]\n"
        )
        .unwrap();
        story
    }

    /// The secret of the story's key.
    #[must_use]
    pub fn key(&self) -> String {
        format!("sk-test-{:-<40}", self.name)
    }

    /// Adds lines of YAML.
    #[must_use]
    pub fn with(mut self, yaml: &str) -> Self {
        self.yaml.push_str(yaml);
        self.yaml.push('\n');
        self
    }

    /// Applies the story to a mesh.
    ///
    /// # Errors
    /// What the mesh refused.
    pub fn try_apply(&self, mesh: &Mesh) -> Result<String, String> {
        let path = mesh.dir().join(format!("{}.yaml", self.name));
        std::fs::write(&path, &self.yaml).unwrap();
        mesh.operate(&["apply", "-f", path.to_str().unwrap()])
    }

    /// Applies the story to a mesh, which must take it.
    pub fn apply(&self, mesh: &Mesh) {
        if let Err(refused) = self.try_apply(mesh) {
            panic!("{refused}\n{}", self.yaml);
        }
    }
}
