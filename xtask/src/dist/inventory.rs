//! What the programs are made of: crates, and the npm packages of its page. Written as a bill of materials in CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use base64::Engine;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PROGRAMS, targets::TARGETS};
use crate::step::{cargo, output, root};

/// A crate or package inside the programs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Component {
    pub(super) registry: Registry,
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression; `None` if its author names a file instead.
    pub(super) license: Option<String>,
    /// SHA-256 of a crate's file; SHA-512 of a package's, both in hexadecimal.
    digest: Option<String>,
}

/// Where a component comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Registry {
    Crates,
    Npm,
}

/// All components, and which needs which.
#[derive(Debug)]
pub(super) struct Inventory {
    pub(super) components: BTreeSet<Component>,
    /// By package URL.
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CratePackage>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct CratePackage {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolveNode>,
}

#[derive(Deserialize)]
struct ResolveNode {
    id: String,
    deps: Vec<ResolveEdge>,
}

#[derive(Deserialize)]
struct ResolveEdge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

#[derive(Deserialize)]
struct NpmLock {
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Deserialize)]
struct NpmPackage {
    version: Option<String>,
    license: Option<String>,
    integrity: Option<String>,
    #[serde(default)]
    dev: bool,
    #[serde(default)]
    dependencies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct CargoLock {
    package: Vec<LockedCrate>,
}

#[derive(Deserialize)]
struct LockedCrate {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// Returns the version of the tool's package.
pub(super) fn version() -> Result<String> {
    let json = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&json).context("cannot read what cargo metadata prints")?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let binary = packages.iter().find(|package| package["name"] == PROGRAMS[0]);
    let version = binary.and_then(|package| package["version"].as_str());
    Ok(version.context("the workspace has no package subscope")?.to_owned())
}

/// Reads what the programs of any target are made of.
pub(super) fn read() -> Result<Inventory> {
    let mut inventory = Inventory { components: BTreeSet::new(), dependencies: BTreeMap::new() };
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked"]);
    for target in &TARGETS {
        metadata.args(["--filter-platform", target.triple]);
    }
    let json = output(&mut metadata)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    inventory.add_crates(&json, &lock)?;
    let lock = root().join("web/package-lock.json");
    inventory.add_packages(
        &fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?,
    )?;
    Ok(inventory)
}

impl Inventory {
    /// Adds the crates linked into the programs, and those that run while it is built, without the tests'.
    fn add_crates(&mut self, metadata: &str, lock: &str) -> Result<()> {
        let metadata: CargoMetadata =
            serde_json::from_str(metadata).context("cannot read what cargo metadata prints")?;
        let lock: CargoLock = toml::from_str(lock).context("cannot read Cargo.lock")?;
        let sums: BTreeMap<(&str, &str), &str> = lock
            .package
            .iter()
            .filter_map(|it| Some(((it.name.as_str(), it.version.as_str()), it.checksum.as_deref()?)))
            .collect();
        let packages: BTreeMap<&str, &CratePackage> =
            metadata.packages.iter().map(|it| (it.id.as_str(), it)).collect();
        let nodes: BTreeMap<&str, &ResolveNode> =
            metadata.resolve.nodes.iter().map(|it| (it.id.as_str(), it)).collect();
        let mut queue: Vec<_> = metadata.packages.iter().filter(|it| it.is_program()).collect();
        let mut seen: BTreeSet<&str> = queue.iter().map(|it| it.id.as_str()).collect();
        while let Some(package) = queue.pop() {
            let edges = nodes.get(package.id.as_str()).map(|node| node.deps.as_slice()).unwrap_or_default();
            let shipped = edges.iter().filter(|edge| edge.is_shipped());
            let needs: Vec<&CratePackage> =
                shipped.filter_map(|edge| packages.get(edge.pkg.as_str()).copied()).collect();
            let component = Component {
                registry: Registry::Crates,
                name: package.name.clone(),
                version: package.version.clone(),
                license: package.license.as_deref().map(spdx),
                digest: sums.get(&(package.name.as_str(), package.version.as_str())).map(|&it| it.to_owned()),
            };
            let urls = needs.iter().map(|it| package_url(Registry::Crates, &it.name, &it.version)).collect();
            self.dependencies.insert(component.url(), urls);
            if package.name != PROGRAMS[0] {
                self.components.insert(component);
            }
            queue.extend(needs.into_iter().filter(|it| seen.insert(&it.id)));
        }
        Ok(())
    }

    /// Adds the npm packages that the page is made of.
    fn add_packages(&mut self, lock: &str) -> Result<()> {
        let lock: NpmLock = serde_json::from_str(lock).context("cannot read web/package-lock.json")?;
        let named: Vec<(&str, &NpmPackage)> = lock
            .packages
            .iter()
            .filter(|(_, package)| !package.dev)
            .filter_map(|(path, package)| Some((path.rsplit_once("node_modules/")?.1, package)))
            .collect();
        for (name, package) in &named {
            let version = package.version.clone().with_context(|| format!("{name} has no version"))?;
            let component = Component {
                registry: Registry::Npm,
                name: (*name).to_owned(),
                version,
                license: package.license.clone(),
                digest: package.integrity.as_deref().map(hexadecimal).transpose()?,
            };
            let needs = named.iter().filter(|(needed, _)| package.dependencies.contains_key(*needed));
            let urls = needs
                .filter_map(|(needed, it)| Some(package_url(Registry::Npm, needed, it.version.as_deref()?)));
            self.dependencies.insert(component.url(), urls.collect());
            self.components.insert(component);
        }
        Ok(())
    }

    /// Returns the bill of materials as JSON. It holds no time, so that the same inventory gives the same text.
    pub(super) fn cyclone_dx(&self, version: &str) -> Result<String> {
        let own = package_url(Registry::Crates, "subscope", version);
        let components: Vec<Value> = self.components.iter().map(Component::cyclone_dx).collect();
        let dependencies: Vec<Value> =
            self.dependencies.iter().map(|(of, on)| json!({ "ref": of, "dependsOn": on })).collect();
        let bom = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "component": {
                    "type": "application",
                    "bom-ref": own,
                    "name": "subscope",
                    "version": version,
                    "purl": own,
                    "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                },
            },
            "components": components,
            "dependencies": dependencies,
        });
        Ok(serde_json::to_string_pretty(&bom)? + "\n")
    }
}

impl CratePackage {
    fn is_program(&self) -> bool {
        PROGRAMS.contains(&self.name.as_str()) && self.source.is_none()
    }
}

impl ResolveEdge {
    fn is_shipped(&self) -> bool {
        self.dep_kinds.iter().any(|it| it.kind.as_deref() != Some("dev"))
    }
}

impl Component {
    fn url(&self) -> String {
        package_url(self.registry, &self.name, &self.version)
    }

    fn cyclone_dx(&self) -> Value {
        let url = self.url();
        let mut component = json!({
            "type": "library",
            "bom-ref": url,
            "name": self.name,
            "version": self.version,
            "purl": url,
        });
        if let Some(license) = &self.license {
            component["licenses"] = json!([{ "expression": license }]);
        }
        if let Some(digest) = &self.digest {
            let algorithm = match self.registry {
                Registry::Crates => "SHA-256",
                Registry::Npm => "SHA-512",
            };
            component["hashes"] = json!([{ "alg": algorithm, "content": digest }]);
        }
        component
    }
}

fn package_url(registry: Registry, name: &str, version: &str) -> String {
    match registry {
        Registry::Crates => format!("pkg:cargo/{name}@{version}"),
        Registry::Npm => format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
    }
}

/// Writes the old form of crates, `MIT/Apache-2.0`, as an SPDX expression.
fn spdx(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Returns the digest of npm's `sha512-BASE64` in hexadecimal digits.
fn hexadecimal(integrity: &str) -> Result<String> {
    let encoded =
        integrity.strip_prefix("sha512-").with_context(|| format!("{integrity:?} is no SHA-512"))?;
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty() -> Inventory {
        Inventory { components: BTreeSet::new(), dependencies: BTreeMap::new() }
    }

    #[test]
    fn crates_of_the_programs_are_listed_and_those_of_tests_are_not() {
        let metadata = json!({
            "packages": [
                { "id": "own", "name": "subscope", "version": "1.0.0", "license": "MIT", "source": null },
                { "id": "a", "name": "a", "version": "2.0.0", "license": "MIT/Apache-2.0", "source": "registry" },
                { "id": "t", "name": "t", "version": "3.0.0", "license": "MIT", "source": "registry" },
            ],
            "resolve": { "nodes": [
                { "id": "own", "deps": [
                    { "pkg": "a", "dep_kinds": [{ "kind": null }] },
                    { "pkg": "t", "dep_kinds": [{ "kind": "dev" }] },
                ] },
                { "id": "a", "deps": [{ "pkg": "a", "dep_kinds": [{ "kind": "dev" }] }] },
                { "id": "t", "deps": [] },
            ] },
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"2.0.0\"\nchecksum = \"ab12\"\n";
        let mut inventory = empty();
        inventory.add_crates(&metadata.to_string(), lock).unwrap();
        let bom: Value = serde_json::from_str(&inventory.cyclone_dx("1.0.0").unwrap()).unwrap();
        assert_eq!(bom["components"].as_array().unwrap().len(), 1);
        assert_eq!(bom["components"][0]["purl"], "pkg:cargo/a@2.0.0");
        assert_eq!(bom["components"][0]["hashes"][0]["content"], "ab12");
        assert_eq!(bom["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        let own = json!({ "ref": "pkg:cargo/subscope@1.0.0", "dependsOn": ["pkg:cargo/a@2.0.0"] });
        assert!(bom["dependencies"].as_array().unwrap().contains(&own), "{bom}");
    }

    #[test]
    fn packages_of_the_page_are_listed_and_those_that_build_it_are_not() {
        let lock = json!({ "packages": {
            "": { "version": null },
            "node_modules/@s/kit": {
                "version": "1.0.0", "license": "MIT", "integrity": "sha512-qxI=", "dependencies": { "u": "^1" },
            },
            "node_modules/@s/kit/node_modules/u": { "version": "1.1.0", "license": "ISC" },
            "node_modules/vite": { "version": "8.0.0", "dev": true },
        } });
        let mut inventory = empty();
        inventory.add_packages(&lock.to_string()).unwrap();
        let names: Vec<&str> = inventory.components.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["@s/kit", "u"]);
        assert_eq!(inventory.components.first().unwrap().digest.as_deref(), Some("ab12"));
        assert!(inventory.dependencies["pkg:npm/%40s/kit@1.0.0"].contains("pkg:npm/u@1.1.0"));
    }
}
