// The types of the data model: those of the client library, which `cargo xtask types` generates from crates/model.
export type * from "../../clients/typescript/src/model";
