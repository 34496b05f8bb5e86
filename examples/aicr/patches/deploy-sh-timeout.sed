# sed -E -i -f deploy-sh-timeout.sed deploy.sh
# (or pkg/bundler/deployer/helm/templates/deploy.sh.tmpl in AICR)
#
# Give dra-plugin-refresh its own time, have Helm wait for its plain Job, and do not retry: a Job that failed stays failed.
/^    \*-readiness\)$/i\
    dra-plugin-refresh)\
      COMPONENT_HELM_TIMEOUT="27m"\
      COMPONENT_MAX_RETRIES="0"\
      if [[ "${NO_WAIT}" != "true" ]]; then\
        COMPONENT_WAIT_ARGS="--wait --wait-for-jobs --timeout ${COMPONENT_HELM_TIMEOUT}"\
      fi\
      ;;
