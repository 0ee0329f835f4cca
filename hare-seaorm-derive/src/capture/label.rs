//! The first half of an entity's label: whose entity it is.

use std::path::PathBuf;

/// Names that a package of entities has whatever it belongs to: they would say nothing in a topic.
const SAYS_NOTHING: [&str; 4] = ["entity", "entities", "model", "models"];

/// The crate that declares an entity.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) name: Option<String>,
    pub(crate) manifest: Option<Manifest>,
}

/// Its Cargo.toml.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Package {
    /// The one being compiled. Without Cargo there is none, and the attribute decides alone.
    pub(crate) fn current() -> Self {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").and_then(|directory| {
            let path = PathBuf::from(directory).join("Cargo.toml");
            let text = std::fs::read_to_string(&path).ok()?;
            Some(Manifest { path, text })
        });
        Self {
            name: std::env::var("CARGO_PKG_NAME").ok(),
            manifest,
        }
    }

    /// The `app` of entities that do not name one: what the manifest says, else the package's name.
    pub(crate) fn app(&self) -> Result<String, String> {
        if let Some(app) = self.manifest.as_ref().map(Manifest::app).transpose()?.flatten() {
            return Ok(app);
        }
        match self.name.as_deref() {
            Some(name) if SAYS_NOTHING.contains(&name) => Err(two_ways(&format!(
                "a package called `{name}` does not say whose entities these are"
            ))),
            Some(name) => Ok(name.to_owned()),
            None => Err(two_ways(
                "this is not built by Cargo, so there is no package name to call the entities' service by",
            )),
        }
    }
}

impl Manifest {
    /// `app` under `[package.metadata.hare]`.
    fn app(&self) -> Result<Option<String>, String> {
        // A manifest that does not parse is Cargo's to report.
        let Ok(manifest) = self.text.parse::<toml::Table>() else {
            return Ok(None);
        };
        let app = manifest
            .get("package")
            .and_then(|package| package.get("metadata"))
            .and_then(|metadata| metadata.get("hare"))
            .and_then(|hare| hare.get("app"));
        match app {
            None => Ok(None),
            Some(toml::Value::String(app)) if !app.trim().is_empty() => Ok(Some(app.clone())),
            Some(_) => Err(
                "`app` under `[package.metadata.hare]` in Cargo.toml must be a string that is not empty"
                    .to_owned(),
            ),
        }
    }
}

fn two_ways(problem: &str) -> String {
    format!(
        "{problem}: name the service, here with `#[hare(capture(app = \"library\"))]`, or for all entities of the package with \
         `app = \"library\"` under `[package.metadata.hare]` in Cargo.toml"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, manifest: &str) -> Package {
        Package {
            name: Some(name.to_owned()),
            manifest: Some(Manifest {
                path: PathBuf::from("/library/Cargo.toml"),
                text: manifest.to_owned(),
            }),
        }
    }

    #[test]
    fn the_manifest_comes_before_the_package_name() {
        let package = package(
            "entity",
            "[package]\nname = \"entity\"\n[package.metadata.hare]\napp = \"library\"\n",
        );
        assert_eq!(package.app().as_deref(), Ok("library"));
    }

    #[test]
    fn the_package_name_is_the_default() {
        assert_eq!(
            package("library", "[package]\nname = \"library\"\n")
                .app()
                .as_deref(),
            Ok("library")
        );
        assert_eq!(
            Package {
                name: Some("library".to_owned()),
                manifest: None
            }
            .app()
            .as_deref(),
            Ok("library")
        );
    }

    #[test]
    fn a_package_name_that_says_nothing_is_refused_with_both_ways_out() {
        for name in ["entity", "entities", "model", "models"] {
            let refusal = package(name, "").app().expect_err(name);
            assert!(refusal.contains(&format!("`{name}`")), "{refusal}");
            assert!(
                refusal.contains("#[hare(capture(app = \"library\"))]"),
                "{refusal}"
            );
            assert!(refusal.contains("[package.metadata.hare]"), "{refusal}");
        }
    }

    #[test]
    fn an_app_that_is_no_name_is_refused() {
        for app in ["3", "\"\"", "\" \"", "[\"library\"]"] {
            let package = package("library", &format!("[package.metadata.hare]\napp = {app}\n"));
            assert!(
                package.app().expect_err(app).contains("must be a string"),
                "{app}"
            );
        }
    }

    #[test]
    fn without_cargo_the_service_must_be_named() {
        assert!(
            Package::default()
                .app()
                .expect_err("no name")
                .contains("not built by Cargo")
        );
    }
}
