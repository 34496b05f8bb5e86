# sed -E -i -f helmfile-timeout.sed level-*.yaml    (or helmfile.yaml, whichever has the releases)
#
# The default of AICR's helmfile is 600 seconds, and it does not wait for Jobs.
s/^( *)- name: dra-plugin-refresh$/&\n\1  timeout: 1620\n\1  waitForJobs: true/
