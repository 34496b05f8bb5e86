# sed -E -i -f deploy-sh-block.sed deploy.sh
# (or pkg/bundler/deployer/helm/templates/deploy.sh.tmpl in AICR)
#
# Remove the block that waits for upgrade labels and restarts the DaemonSet of the plugin, as the original proposal asks.
/^  # --- post-install name-matched blocks ---$/,/^done$/{
  /^done$/!d
}
