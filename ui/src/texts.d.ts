declare module "texts:*" {
  const words: Record<string, string>;
  export default words;
}
