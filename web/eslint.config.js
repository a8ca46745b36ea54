import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["node_modules", "*.config.js"] },
  ...tseslint.configs.strict,
  { rules: { "@typescript-eslint/no-non-null-assertion": "off", eqeqeq: "error", "no-console": "error" } },
);
