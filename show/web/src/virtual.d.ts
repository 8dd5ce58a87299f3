declare module "virtual:glossary" {
  export const WORDS: [term: string, meaning: string][];
}
